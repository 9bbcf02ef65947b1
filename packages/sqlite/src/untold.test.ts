import { fork } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { expect, test } from 'vitest';
import { SqliteCoordinator } from './SqliteCoordinator.js';

const PROGRAM = `
  const { SqliteCoordinator } = await import(process.argv[3]);
  const replica = new SqliteCoordinator({ path: process.argv[2], maxAttempts: 1 });
  await replica.start();
  await replica.acquireTurn(await replica.accept('k', { id: '1', body: 'x' }));
  process.send('held');
  setTimeout(() => {}, 60_000);
`;

test('a message that is parked because its process ended is told of by a replica that lives', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'botmesh-sqlite-'));
  const path = join(folder, 'mesh.db');
  const program = join(folder, 'program.mjs');
  writeFileSync(program, PROGRAM);
  const witness = new SqliteCoordinator({ path });
  const told: unknown[] = [];
  witness.on('parked', (event) => told.push(event));
  try {
    await witness.start();
    const built = pathToFileURL(join(process.cwd(), 'packages/sqlite/dist/index.js')).href;
    const child = fork(program, [path, built], { execArgv: [] });
    await new Promise((resolve) => child.once('message', resolve));
    // So that the look for ended processes comes before the heartbeat.
    const waiting = witness.acquireTurn(await witness.reserve('k'));
    child.kill('SIGKILL');
    await (await waiting).release();

    await expect.poll(() => told, { timeout: 10_000 }).toEqual([{ key: 'k', id: '1', attempts: 1 }]);
  } finally {
    await witness.stop();
    rmSync(folder, { recursive: true, force: true });
  }
}, 30_000);
