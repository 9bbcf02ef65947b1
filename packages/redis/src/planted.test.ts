import { readFileSync } from 'node:fs';
import { compareStores, memoryStoreLab, stateConformance, storeConformance } from '@botmesh/core/testing';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { TestServer } from '../testing/lab.js';
import { PLANTED, type Planted, planting } from '../testing/planted.js';
import { virtualLab } from '../testing/stores.js';
import type { Connection } from './clients/connection.js';
import { openConnection } from './clients/open-connection.js';
import { RedisStateStore } from './RedisStateStore.js';

/** What a state store connects through: it opens its connection itself. */
const through = vi.hoisted(() => ({ wrap: (connection: unknown): unknown => connection }));
vi.mock(import('./SharedConnection.js'), async (importOriginal) => {
  const { SharedConnection } = await importOriginal();
  class Wrapped extends SharedConnection {
    override async get(user: object): Promise<Connection> {
      return through.wrap(await super.get(user)) as Connection;
    }
  }
  return { SharedConnection: Wrapped };
});

/** As many random lists as CI runs for each server. */
const LISTS = 40;

let server: TestServer;
let connection: Connection;
beforeAll(async () => {
  server = await TestServer.start();
  connection = await openConnection({ url: server.url, timeoutMs: 5_000, connectTimeoutMs: 5_000 });
});
afterAll(async () => {
  await connection.close();
  await server[Symbol.asyncDispose]();
});

/** What finds the bug, in words; undefined when nothing does. */
async function findByLists(withBug: Connection): Promise<string | undefined> {
  const subject = virtualLab(withBug);
  for (let seed = 1; seed <= LISTS; seed++) {
    const difference = await compareStores({ reference: memoryStoreLab, subject, seed, steps: 60, shrinkTries: 0 });
    if (difference !== undefined) return `list ${seed}: ${difference.found}`;
  }
  return undefined;
}

async function findByFacts(withBug: Connection): Promise<string | undefined> {
  const can = ['moveClock', 'restart', 'wipe', 'snapshot'] as const;
  return firstRed(storeConformance({ name: 'planted', open: virtualLab(withBug), can }));
}

interface Fact {
  readonly title: string;
  readonly run: () => Promise<void>;
}

async function firstRed(facts: readonly Fact[]): Promise<string | undefined> {
  for (const { title, run } of facts) {
    const why = await run().then(
      () => undefined,
      (error: Error) => error.message,
    );
    if (why !== undefined) return `${title}: ${why}`;
  }
  return undefined;
}

let meshes = 0;

async function findByState(withBug: Connection): Promise<string | undefined> {
  through.wrap = () => withBug;
  const open = async () => ({ store: new RedisStateStore({ url: server.url, namespace: `planted-${++meshes}` }) });
  try {
    return await firstRed(stateConformance({ name: 'planted', open }));
  } finally {
    through.wrap = (own) => own;
  }
}

const find = { lists: findByLists, facts: findByFacts, state: findByState } as const;

test.for(PLANTED)('a planted bug is found: $name', { timeout: 60_000 }, async (bug: Planted, { task }) => {
  const { connection: withBug, wasPlanted } = planting(connection, bug);
  const startedMs = performance.now();

  const found = await find[bug.foundBy](withBug);

  Object.assign(task.meta, { planted: { by: found, ms: performance.now() - startedMs } });
  expect(wasPlanted()).toBe(true);
  expect(found).toBeDefined();
  // A script that does not run at all shows nothing.
  expect(found).not.toMatch(/user_script|compiling|unavailable/);
});

test('the page of planted bugs names each of them', () => {
  const page = readFileSync(new URL('../../../docs/redis-planted-bugs.md', import.meta.url), 'utf8');
  const named = [...page.matchAll(/^\| (.+?) \|/gm)].map(([, name]) => name!).filter((name) => name !== 'planted');

  expect(named).toEqual(PLANTED.map(({ name }) => name));
});
