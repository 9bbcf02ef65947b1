import { botConformance, coordinatorConformance, inboxConformance, mailroomConformance } from '@botmesh/core/testing';
import { afterAll, describe, test } from 'vitest';
import { ToldSchema } from '../testing/told.js';
import { virtualSubject } from '../testing/virtual-mesh.js';
import { openWay, waysToRun } from '../testing/ways.js';

describe.each(waysToRun())('every suite on PostgreSQL, in virtual time, by $name', async (way) => {
  const { client, close, instance, options, url } = await openWay(way);
  const schema = await ToldSchema.open(url, { ...options, library: client.library });
  const user = instance();
  const subject = virtualSubject(schema, user.place);
  afterAll(async () => {
    await schema[Symbol.asyncDispose]();
    await user.close();
    await close();
  });

  const suite: readonly { title: string; skip?: string; run: () => Promise<void> }[] = [
    ...coordinatorConformance(subject),
    ...inboxConformance(subject),
    ...mailroomConformance(subject),
    ...botConformance(subject),
  ];
  for (const { title, run, skip } of suite) test(title, { skip: skip !== undefined, timeout: 60_000 }, run);
});
