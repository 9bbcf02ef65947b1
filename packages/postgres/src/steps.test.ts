import { demandSameAnswers, memoryStoreLab, storeConformance } from '@botmesh/core/testing';
import { afterAll, describe, test } from 'vitest';
import { isLong } from '../testing/lab.js';
import { ToldSchema, toldLab } from '../testing/told.js';
import { openWay, WAYS, waysToRun } from '../testing/ways.js';

/** Batches of few keys go key by key, others by one statement for all. Here all go one way. */
const SIZES = [
  { how: 'key by key', few: 256 },
  { how: 'by one statement for all keys', few: 0 },
];

/** The suite demands that pushes arrive, which nobody hears who polls. */
const ways = waysToRun(WAYS.filter(({ wakeUp }) => wakeUp === 'listen').map((way) => ({ ...way, isShort: true })));
/** Each of both ways through the functions is gone on each of both ways to the server, or on one in the short form. */
const cases = isLong
  ? ways.flatMap((way) => SIZES.map((size) => ({ way, ...size, by: way.name })))
  : SIZES.map((size, at) => ({ way: ways.at(-at)!, ...size, by: ways.at(-at)!.name }));

describe.each(cases)('step by step on PostgreSQL, $how, by $by', async ({ few, way }) => {
  const { client, close, options, url } = await openWay(way);
  const schema = await ToldSchema.open(url, { few, ...options, library: client.library });
  const open = toldLab(schema);
  afterAll(async () => {
    await schema[Symbol.asyncDispose]();
    await close();
  });

  const can = ['moveClock', 'restart', 'wipe', 'snapshot'] as const;
  for (const { title, run } of storeConformance({ name: 'postgres', open, can })) test(title, run);

  const lists = Math.ceil(Number(process.env.BOTMESH_LISTS ?? 40) / SIZES.length);
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
