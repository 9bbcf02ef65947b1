import { compareStores, memoryStoreLab, type StoreLab, storeConformance } from '@botmesh/core/testing';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { PLANTED, withPlanted } from '../testing/planted.js';
import { openServer, ToldSchema, toldLab } from '../testing/told.js';

/** As many random lists as CI runs. */
const LISTS = 40;

let server: Awaited<ReturnType<typeof openServer>>;
let schema: ToldSchema;
let open: () => Promise<StoreLab>;
beforeAll(async () => {
  server = await openServer();
  schema = await ToldSchema.open(server.url);
  open = toldLab(schema);
});
afterAll(async () => {
  await schema[Symbol.asyncDispose]();
  await server.close();
});

/** What finds the bug, in words; undefined when nothing does. */
async function findByLists(): Promise<string | undefined> {
  for (let seed = 1; seed <= LISTS; seed++) {
    const options = { reference: memoryStoreLab, subject: open, seed, steps: 60, shrinkTries: 0 };
    const difference = await compareStores(options);
    if (difference !== undefined) return `list ${seed}: ${difference.found}`;
  }
  return undefined;
}

async function findByFacts(): Promise<string | undefined> {
  const can = ['moveClock', 'restart', 'wipe', 'snapshot'] as const;
  for (const { title, run } of storeConformance({ name: 'planted', open, can })) {
    const why = await run().then(
      () => undefined,
      (error: Error) => error.message,
    );
    if (why !== undefined) return `${title}: ${why}`;
  }
  return undefined;
}

const find = { lists: findByLists, facts: findByFacts } as const;

test.for(PLANTED)('a planted bug is found: $name', { timeout: 60_000 }, async (bug, { task }) => {
  const startedMs = performance.now();
  const found = await withPlanted(schema.client, schema.name, bug, find[bug.foundBy]);

  Object.assign(task.meta, { planted: { by: found, ms: performance.now() - startedMs } });
  expect(found).toBeDefined();
  // A function that does not run at all shows nothing.
  expect(found).not.toMatch(/syntax error|does not exist|unavailable/);
});

test('without a bug the same lists and facts find nothing: every function was put back', async () => {
  const options = { reference: memoryStoreLab, subject: open, seed: 1, steps: 60, shrinkTries: 0 };

  expect(await compareStores(options)).toBeUndefined();
  expect(await findByFacts()).toBeUndefined();
});
