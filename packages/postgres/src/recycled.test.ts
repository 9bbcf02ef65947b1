import { Pool } from 'pg';
import postgres from 'postgres';
import { expect, test } from 'vitest';
import { pause, TestServer, until } from '../testing/lab.js';
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
