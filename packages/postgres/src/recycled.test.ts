import { Pool } from 'pg';
import postgres from 'postgres';
import { expect, test } from 'vitest';
import { pause, pgBouncer, TestPooler, TestServer, until } from '../testing/lab.js';
import { PostgresCoordinator } from './index.js';

const RECYCLES = 10;
const EVERY_MS = 300;

// C-54
test('a leadership does not flicker while every connection is ended again and again', async () => {
  await using server = await TestServer.start();
  const pool = new Pool({ connectionString: server.url(), max: 1, idleTimeoutMillis: 100, maxLifetimeSeconds: 1 });
  pool.on('error', () => {});
  const sql = postgres(server.url(), { max: 1, max_lifetime: 1 });
  const coordinators = [pool, sql].map((client) => new PostgresCoordinator({ client, leaseMs: 3000 }));
  const told: string[] = [];
  for (const one of coordinators) {
    one.on('lost', () => told.push('lost'));
    one.on('superseded', () => told.push('superseded'));
    one.on('unavailable', () => told.push('unavailable'));
    await one.start();
  }
  const leaderships = await Promise.all(coordinators.map((one, n) => one.lead(`name ${n}`)));

  for (let n = 0; n < RECYCLES; n++) {
    await server.ask(
      "select pg_terminate_backend(pid) from pg_stat_activity where backend_type = 'client backend' and pid <> pg_backend_pid()",
    );
    await pause(EVERY_MS);
    for (const leadership of leaderships) leadership.assertHeld();
  }

  expect(told).toEqual([]);
  for (const one of coordinators) {
    await until('turns are granted', async () => {
      await (await one.acquireTurn(await one.reserve('chat'))).release();
      return true;
    });
    await one.stop();
  }
  await pool.end();
  await sql.end();
});

// C-55
test.skipIf(pgBouncer() === undefined)(
  'a leadership and a turn are held behind a pooler of transactions that changes its connections every second',
  async () => {
    await using server = await TestServer.start();
    const recycles = ['default_pool_size = 3', 'server_lifetime = 1', 'server_idle_timeout = 1'];
    await using pooler = await TestPooler.start(server.port, recycles);
    const pool = new Pool({ connectionString: pooler.url() });
    const sql = postgres(pooler.url(), { prepare: false });
    const coordinators = [pool, sql].map(
      (client) => new PostgresCoordinator({ client, leaseMs: 3000, wakeUp: 'poll', pollMs: 50 }),
    );
    const told: string[] = [];
    for (const one of coordinators) {
      for (const event of ['lost', 'superseded', 'unavailable'] as const) one.on(event, () => told.push(event));
      await one.start();
    }
    const held = await Promise.all([
      ...coordinators.map((one, n) => one.lead(`name ${n}`)),
      ...coordinators.map(async (one, n) => one.acquireTurn(await one.reserve(`chat ${n}`))),
    ]);
    const pids = new Set<unknown>();

    for (let n = 0; n < RECYCLES; n++) {
      const rows = await server.ask(
        "select pid from pg_stat_activity where backend_type = 'client backend' and pid <> pg_backend_pid()",
      );
      for (const [pid] of rows) pids.add(pid);
      await pause(EVERY_MS);
      for (const one of held) one.assertHeld();
    }

    expect(told).toEqual([]);
    // More than the pooler has at once: they were changed meanwhile.
    expect(pids.size).toBeGreaterThan(3);
    await Promise.all(coordinators.map((one) => one.stop()));
    await pool.end();
    await sql.end();
  },
);
