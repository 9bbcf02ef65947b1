import { expect, test } from 'vitest';
import { findDriver } from './driver.js';
import { ProcessPool } from './mesh.test-support.js';

/** Which library is to be found: `scripts/test.mjs` says so where it runs another version of Node. */
const wanted = process.env.BOTMESH_SQLITE_DRIVER ?? (await whatLoads());

async function whatLoads(): Promise<string> {
  try {
    const { default: Library } = await import('better-sqlite3');
    new Library(':memory:').close();
    return 'better-sqlite3';
  } catch {
    return 'node:sqlite';
  }
}

// C-79
test('better-sqlite3 is used where it loads, else Node’s own, here and in other processes', async () => {
  const pool = new ProcessPool();
  const { name, open } = await findDriver();
  const database = open(':memory:');
  const version = database.prepare('SELECT sqlite_version() AS version').get()?.version;
  database.close();
  console.log(`Node ${process.versions.node}: ${name}, SQLite ${version}`);

  expect([name, ...(await pool.drivers(1))]).toEqual([wanted, wanted]);
  await pool.end();
});

test('a library asked for by name is used, or named in the error', async () => {
  const used = await Promise.allSettled((['better-sqlite3', 'node:sqlite'] as const).map(findDriver));

  for (const [at, name] of (['better-sqlite3', 'node:sqlite'] as const).entries()) {
    const found = used[at]!;
    if (found.status === 'fulfilled') expect(found.value.name).toBe(name);
    else
      expect(found.reason).toMatchObject({
        code: 'config',
        message: expect.stringContaining(`${name} cannot be loaded`),
      });
  }
});
