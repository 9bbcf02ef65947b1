import { stateConformance } from '@botmesh/core/testing';
import { Pool } from 'pg';
import postgres from 'postgres';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { TestServer } from '../testing/lab.js';
import { PostgresStateStore } from './index.js';

let server: TestServer;
let pool: Pool;
let sql: postgres.Sql;
beforeAll(async () => {
  server = await TestServer.start();
  pool = new Pool({ connectionString: server.url() });
  pool.on('error', () => {});
  sql = postgres(server.url());
});
afterAll(async () => {
  await pool.end();
  await sql.end();
  await server[Symbol.asyncDispose]();
});

let meshes = 0;

const clients = [
  { name: 'pg', client: () => pool },
  { name: 'postgres', client: () => sql },
];

describe.each(clients)('state by $name', ({ client, name }) => {
  const suite = stateConformance({
    name,
    async open() {
      const options = { client: client(), namespace: `state-${++meshes}` };
      const [store, other] = [new PostgresStateStore(options), new PostgresStateStore(options)];
      return {
        store,
        other,
        close: async () => {
          await Promise.all([store.close(), other.close()]);
        },
      };
    },
  });
  for (const { title, run, skip } of suite) test(title, { skip: skip !== undefined }, run);

  test('keys of any length and text are told apart', async () => {
    const store = new PostgresStateStore({ client: client(), namespace: `state-${++meshes}` });
    const keys = ['\ud800', '\u0000', '\u0001', 'x'.repeat(5000), `${'x'.repeat(4999)}y`];
    for (const [n, key] of keys.entries()) await store.save(key, n, 1);

    for (const [n, key] of keys.entries()) expect(await store.load(key)).toEqual({ value: n, fence: 1 });
    await store.close();
  });
});

test('a state with a time to live goes after it, and each save begins it anew', async () => {
  const store = new PostgresStateStore({ url: server.url(), namespace: 'ttl', ttlMs: 60_000 });
  const left = async () =>
    Number(
      (
        await server.ask("select extract(epoch from expires_at - now()) from botmesh.state where namespace = 'ttl'")
      )[0]?.[0],
    );
  await store.save('k', 1, 7);
  await server.ask("update botmesh.state set expires_at = now() + interval '5 s' where namespace = 'ttl'");

  await store.save('k', 2, 7);
  expect(await left()).toBeGreaterThanOrEqual(59);
  expect(await left()).toBeLessThanOrEqual(68);

  await server.ask("update botmesh.state set expires_at = now() where namespace = 'ttl'");
  expect(await store.load('k')).toBeNull();
  await store.save('k', 3, 1);
  expect(await store.load('k')).toEqual({ value: 3, fence: 1 });
  await store.close();
});

test('saves of one chat stay in their page', async () => {
  const store = new PostgresStateStore({ url: server.url(), schema: 'hot' });
  for (let fence = 1; fence <= 200; fence++) await store.save('k', { fence }, fence);
  // What a session counted is known when it has ended.
  await store.close();

  const counted = async (): Promise<number[]> =>
    (
      await server.ask(
        "select n_tup_upd::int, n_tup_hot_upd::int from pg_stat_user_tables where schemaname = 'hot' and relname = 'state'",
      )
    )[0] as number[];
  await expect.poll(async () => (await counted())[0], { timeout: 5000 }).toBe(199);
  expect((await counted())[1]).toBeGreaterThan(0.9 * 199);
});

test('a server that is away rejects, and is used again when it is back', async () => {
  await using away = await TestServer.start();
  const store = new PostgresStateStore({ url: away.url(), timeoutMs: 500 });
  await store.save('k', 1, 1);
  await away.kill();

  await expect(store.load('k')).rejects.toMatchObject({ code: 'unavailable' });

  await away.start();
  await expect.poll(() => store.load('k').catch(() => 'away'), { timeout: 10_000 }).toEqual({ value: 1, fence: 1 });
  await store.close();
});

test.each([
  [{ ttlMs: 5 }, /ttlMs/],
  [{ timeoutMs: -1 }, /timeoutMs/],
  [{ namespace: 'a b' }, /namespace/],
  [{ schema: 'pg_x' }, /schema/],
  [{ tableName: 'x' }, /no option 'tableName'/],
])('options %j are refused by name', (options, message) => {
  expect(() => new PostgresStateStore({ url: 'postgres://a/b', ...options } as never)).toThrow(message);
});
