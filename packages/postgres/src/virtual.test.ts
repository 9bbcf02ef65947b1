import { botConformance, coordinatorConformance, inboxConformance, mailroomConformance } from '@botmesh/core/testing';
import { afterAll, describe, test } from 'vitest';
import { openServer, ToldSchema } from '../testing/told.js';
import { virtualSubject } from '../testing/virtual-mesh.js';

describe('every suite on PostgreSQL, in virtual time', async () => {
  const server = await openServer();
  const schema = await ToldSchema.open(server.url);
  const subject = virtualSubject(schema, server.url);
  afterAll(async () => {
    await schema[Symbol.asyncDispose]();
    await server.close();
  });

  const suite: readonly { title: string; skip?: string; run: () => Promise<void> }[] = [
    ...coordinatorConformance(subject),
    ...inboxConformance(subject),
    ...mailroomConformance(subject),
    ...botConformance(subject),
  ];
  for (const { title, run, skip } of suite) test(title, { skip: skip !== undefined, timeout: 60_000 }, run);
});
