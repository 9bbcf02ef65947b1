import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import type { Database, Driver } from './driver.js';
import { Ground, LEASE_MS } from './faults.test-support.js';
import { SqliteCoordinator, SqliteStateStore } from './index.js';
import { warningOf } from './library.js';

const fake = vi.hoisted(() => ({ version: '3.51.2' }));

/** The real library, but for what it says of its age. */
vi.mock(import('./driver.js'), async (original) => {
  const { findDriver, ...rest } = await original();
  const aged = (database: Database): Database => ({
    exec: (sql) => database.exec(sql),
    close: () => database.close(),
    prepare: (sql) => database.prepare(sql.includes('sqlite_version()') ? `SELECT '${fake.version}' AS version` : sql),
  });
  return {
    ...rest,
    findDriver: async (wanted): Promise<Driver> => {
      const { name, open } = await findDriver();
      return { name: wanted ?? name, open: (path) => aged(open(path)) };
    },
  };
});

let ground: Ground;

beforeEach(() => {
  ground = new Ground();
});

afterEach(async () => {
  await ground.end();
});

test.each([
  ['3.7.17', true],
  ['3.51.2', true],
  ['3.51.3', false],
  ['3.53.2', false],
  ['4.0.0', false],
])('SQLite %s is warned about: %s', (version, isWarned) => {
  expect(warningOf(version) !== undefined).toBe(isWarned);
});

test('an old SQLite is warned about once, and only when several processes write', async () => {
  const warnings: { code?: string; message: string }[] = [];
  // Node may have warnings of its own.
  const listen = (warning: Error): void => {
    if (warning.name === 'BotmeshWarning') warnings.push(warning);
  };
  process.on('warning', listen);
  const alone = new SqliteCoordinator({ path: ground.path, leaseMs: LEASE_MS });
  await alone.start();
  const lead = await alone.lead('first');
  await new Promise((resolve) => setTimeout(resolve, LEASE_MS / 3));
  expect(warnings).toEqual([]);

  await ground.start();
  await expect.poll(() => warnings.length).toBe(1);
  const beside = new SqliteCoordinator({ path: ground.path, leaseMs: LEASE_MS });
  await beside.start();
  await beside.stop();
  await lead.resign();
  await alone.stop();

  process.off('warning', listen);
  expect(warnings).toMatchObject([{ code: 'BOTMESH_SQLITE_OLD', message: expect.stringContaining('SQLite 3.51.2') }]);
}, 30_000);

test('a file that is open in a process is not opened there with another library', async () => {
  const coordinator = new SqliteCoordinator({ path: ground.path, driver: 'better-sqlite3' });
  await coordinator.start();
  const state = new SqliteStateStore({ path: ground.path, driver: 'node:sqlite' });

  await expect(state.load('key')).rejects.toMatchObject({
    code: 'config',
    message: expect.stringContaining('Pass the same driver to all'),
  });

  await coordinator.stop();
  await expect(state.load('key')).resolves.toBeNull();
  await state.close();
});
