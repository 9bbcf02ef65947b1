import { botConformance, coordinatorConformance, inboxConformance, mailroomConformance } from '@botmesh/core/testing';
import { afterAll, describe, test } from 'vitest';
import { ToldSchema } from '../testing/told.js';
import { virtualSubject } from '../testing/virtual-mesh.js';

describe('every suite on PostgreSQL, in virtual time', async () => {
  const schema = await ToldSchema.open();
  const subject = virtualSubject(schema);
  afterAll(() => schema[Symbol.asyncDispose]());

  const suite = [
    ...coordinatorConformance(subject),
    ...inboxConformance(subject),
    ...mailroomConformance(subject),
    ...botConformance(subject),
  ];
  for (const { title, run, skip } of suite) test(title, { skip: skip !== undefined, timeout: 60_000 }, run);
});
