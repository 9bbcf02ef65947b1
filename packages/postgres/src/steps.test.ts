import { demandSameAnswers, memoryStoreLab, storeConformance } from '@botmesh/core/testing';
import { afterAll, describe, test } from 'vitest';
import { openServer, ToldSchema, toldLab } from '../testing/told.js';

/** Batches of few keys go key by key, others by one statement for all. Here all go one way. */
const WAYS = [
  { way: 'key by key', few: 256 },
  { way: 'by one statement for all keys', few: 0 },
];

describe.each(WAYS)('step by step on PostgreSQL, $way', async ({ few }) => {
  const server = await openServer();
  const schema = await ToldSchema.open(server.url, { few });
  const open = toldLab(schema);
  afterAll(async () => {
    await schema[Symbol.asyncDispose]();
    await server.close();
  });

  const can = ['moveClock', 'restart', 'wipe', 'snapshot'] as const;
  for (const { title, run } of storeConformance({ name: 'postgres', open, can })) test(title, run);

  const lists = Math.ceil(Number(process.env.BOTMESH_LISTS ?? 40) / WAYS.length);
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
