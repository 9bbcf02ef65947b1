import { botConformance, coordinatorConformance, inboxConformance, mailroomConformance } from '@botmesh/core/testing';
import { afterAll, describe, test } from 'vitest';
import { Desk, openServer } from '../testing/stores.js';
import { virtualSubject } from '../testing/virtual-mesh.js';

describe('every suite on NATS, in virtual time', async () => {
  const server = await openServer();
  const desk = await Desk.open(server.url);
  const subject = virtualSubject(desk);
  afterAll(async () => {
    await desk[Symbol.asyncDispose]();
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
