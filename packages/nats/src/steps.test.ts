import { demandSameAnswers, memoryStoreLab, storeConformance } from '@botmesh/core/testing';
import { afterAll, describe, test } from 'vitest';
import { Desk, openServer, toldLab } from '../testing/stores.js';

describe('step by step on NATS', async () => {
  const server = await openServer();
  const desk = await Desk.open(server.url);
  const open = toldLab(desk);
  afterAll(async () => {
    await desk[Symbol.asyncDispose]();
    await server.close();
  });

  const can = ['moveClock', 'restart', 'wipe', 'snapshot'] as const;
  for (const { title, run } of storeConformance({ name: 'nats', open, can })) test(title, run);

  const lists = Number(process.env.BOTMESH_LISTS ?? 40);
  const first = Number(process.env.BOTMESH_SEED ?? 1);
  test(
    `${lists} random lists of steps from seed ${first} are answered as the reference answers them`,
    async () => {
      for (let seed = first; seed < first + lists; seed++) {
        await demandSameAnswers({ reference: memoryStoreLab, subject: open, seed, steps: 60 });
      }
    },
    60_000 + lists * 2_000,
  );
});
