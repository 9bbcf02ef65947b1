// What others do in the same database: transactions that stay open, connections that are ended, replicas at the same time.
import { Client } from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { Fleet, TestServer, until } from '../testing/lab.js';
import { SEED } from '../testing/sound.js';
import { PostgresCoordinator, type PostgresCoordinatorOptions } from './PostgresCoordinator.js';

const LEASE_MS = 1800;

let server: TestServer;
beforeAll(async () => {
  server = await TestServer.start({ config: ['max_connections = 150'] });
});
afterAll(() => server[Symbol.asyncDispose]());

/** Another user of the database, in a transaction that stays open. */
class Stranger implements AsyncDisposable {
  readonly #client: Client;

  private constructor(url: string) {
    this.#client = new Client({ connectionString: url, application_name: 'stranger' });
    this.#client.on('error', () => {});
  }

  static async begin(url: string, ...statements: string[]): Promise<Stranger> {
    const stranger = new Stranger(url);
    await stranger.#client.connect();
    for (const text of statements) await stranger.#client.query(text);
    return stranger;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#client.end();
  }
}

async function withReplica<T>(
  options: PostgresCoordinatorOptions,
  use: (replica: PostgresCoordinator) => Promise<T>,
): Promise<T> {
  const replica = new PostgresCoordinator({ leaseMs: LEASE_MS, ...options });
  await replica.start();
  try {
    return await use(replica);
  } finally {
    await replica.stop();
  }
}

async function takeTurn(replica: PostgresCoordinator, key: string): Promise<void> {
  await (await replica.acquireTurn(await replica.reserve(key))).release();
}

const LOCKS = [
  { what: 'the row of a shard', lock: 'select from botmesh.mesh for update', says: /a lock was not free in time/ },
  {
    what: 'a whole table',
    lock: 'lock table botmesh.chat in access exclusive mode',
    // A heartbeat that waits for two locks may be given up before the server says so.
    says: /a lock was not free in time|cannot be reached/,
  },
];

test.concurrent.each(LOCKS)(
  'while somebody else locks $what, calls fail in time; then all goes on',
  { timeout: 60_000 },
  async ({ lock, says, what }) => {
    const url = await server.database(`locked by ${what}`);
    await withReplica({ url }, async (replica) => {
      await takeTurn(replica, 'chat');
      const told: string[] = [];
      replica.on('unavailable', ({ error }) => told.push(error.message));

      const stranger = await Stranger.begin(url, 'begin', lock);
      const startMs = performance.now();
      const refused = await replica.reserve('chat').catch((error: unknown) => error);
      const tookMs = performance.now() - startMs;
      await until('it says that there is no answer', () => told.length > 0);
      await stranger[Symbol.asyncDispose]();

      expect(refused).toMatchObject({ code: 'unavailable' });
      expect(tookMs).toBeLessThan(LEASE_MS + 500);
      expect(told[0]).toMatch(says);
      await until('turns are granted again', async () => {
        await takeTurn(replica, 'chat');
        return true;
      });
    });
  },
);

test.concurrent('a snapshot that somebody keeps open stops nothing', { timeout: 60_000 }, async () => {
  const url = await server.database('old snapshot');
  await withReplica({ url }, async (replica) => {
    await takeTurn(replica, 'chat');
    const losses: unknown[] = [];
    replica.on('lost', (loss) => losses.push(loss));
    await using _stranger = await Stranger.begin(url, 'begin isolation level repeatable read', 'select 1');

    let turns = 0;
    const endMs = performance.now() + 3000;
    const lanes = Array.from({ length: 8 }, async (_, lane) => {
      for (; performance.now() < endMs; turns++) await takeTurn(replica, `chat ${lane}`);
    });
    await Promise.all(lanes);

    expect(losses).toEqual([]);
    expect(turns).toBeGreaterThan(300);
  });
});

test.concurrent('ten processes that start at once on an empty database set it up once, and all of them work', {
  timeout: 120_000,
}, async () => {
  const url = await server.database('ten');
  // Ten programs start one after the other where there are two cores: a lease has to outlast that.
  await using fleet = new Fleet({ backend: 'postgres', seed: SEED, leaseMs: 6000 });
  const ways = ['pool', 'instance'] as const;

  await Promise.all(Array.from({ length: 10 }, (_, n) => fleet.start({ by: ways[n % 2]!, url })));
  await until('each has had a turn', () => workers(fleet).size === 10, 60_000);

  const outcome = await fleet.finish(60_000);
  expect(outcome.violations, `seed ${SEED}`).toEqual([]);
  expect(outcome.lost).toBe(0);
});

function workers(fleet: Fleet): Set<string> {
  return new Set(fleet.events().flatMap((event) => (event.kind === 'granted' ? [event.replica] : [])));
}
