import { execFileSync } from 'node:child_process';
import {
  cpSync,
  linkSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { ConfigError } from '@botmesh/core/spi';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { CALM_MS, Connection } from './Connection.js';
import { type DriverName, findDriver } from './driver.js';
import { attempt } from './faults.test-support.js';
import { SqliteCoordinator, type SqliteCoordinatorOptions, SqliteStateStore } from './index.js';
import { SqliteStore } from './SqliteStore.js';

let folder = '';
let path = '';
let open: SqliteCoordinator[] = [];

beforeEach(() => {
  folder = realpathSync(mkdtempSync(join(tmpdir(), 'botmesh-paths-')));
  path = join(folder, 'mesh.db');
  open = [];
});

afterEach(async () => {
  await Promise.all(open.map((coordinator) => coordinator.stop()));
  rmSync(folder, { recursive: true, force: true });
});

async function start(options: SqliteCoordinatorOptions): Promise<SqliteCoordinator> {
  const coordinator = new SqliteCoordinator({ leaseMs: 12_000, ...options });
  open.push(coordinator);
  await coordinator.start();
  return coordinator;
}

/** That what one holds, the other has to wait for. */
async function expectOneMesh(one: SqliteCoordinator, other: SqliteCoordinator): Promise<void> {
  const held = await one.acquireTurn(await one.reserve('chat'));
  const ticket = await other.reserve('chat');
  await expect(other.acquireTurn(ticket, { timeoutMs: 200 })).rejects.toMatchObject({ code: 'timeout' });
  const again = await other.reserve('chat');
  await held.release();
  const next = await other.acquireTurn(again);
  expect(next.fence).toBeGreaterThan(held.fence);
  await next.release();
}

function run(program: string, cwd: string): string {
  return execFileSync(process.execPath, ['--input-type=module', '-e', program], {
    cwd,
    encoding: 'utf8',
    timeout: 30_000,
  });
}

const loads: DriverName[] = [];
for (const name of ['better-sqlite3', 'node:sqlite'] as const) {
  const isThere = await findDriver(name).then(
    () => true,
    () => false,
  );
  if (isThere) loads.push(name);
}

const dist = new URL('../dist/', import.meta.url).href;

test('a process that changes its folder stays with the file it was given', () => {
  mkdirSync(join(folder, 'other'));
  const found = run(
    `import { readdirSync } from 'node:fs';
     import { SqliteCoordinator, SqliteStateStore } from '${dist}index.js';
     const coordinator = new SqliteCoordinator({ path: 'mesh.db' });
     const state = new SqliteStateStore({ path: 'mesh.db' });
     process.chdir('other');
     await coordinator.start();
     await state.save('k', 1, 1);
     console.log(JSON.stringify([readdirSync('.'), readdirSync('..').includes('mesh.db')]));
     await state.close();
     await coordinator.stop();`,
    folder,
  );

  expect(JSON.parse(found)).toEqual([[], true]);
}, 40_000);

test('a symbolic link to the file, or to its folder, leads to the same mesh, also of a namespace', async () => {
  mkdirSync(join(folder, 'place'));
  path = join(folder, 'place', 'mesh.db');
  const plain = await start({ path });
  symlinkSync(path, join(folder, 'link.db'));
  symlinkSync(join(folder, 'place'), join(folder, 'folder'));

  await expectOneMesh(plain, await start({ path: join(folder, 'link.db') }));
  await expectOneMesh(plain, await start({ path: join(folder, 'folder', 'mesh.db') }));
  await expectOneMesh(
    await start({ path, namespace: 'other' }),
    await start({ path: join(folder, 'link.db'), namespace: 'other' }),
  );
}, 30_000);

test('a symbolic link to no file is refused by name', () => {
  symlinkSync(path, join(folder, 'link.db'));

  for (const make of [SqliteCoordinator, SqliteStateStore]) {
    expect(() => new make({ path: join(folder, 'link.db') })).toThrow(/link\.db is a symbolic link to no file/);
  }
});

test('a file with another name (a hard link) is refused under both', async () => {
  writeFileSync(path, '');
  linkSync(path, join(folder, 'other.db'));

  for (const each of [path, join(folder, 'other.db')]) {
    const refusal = await start({ path: each }).catch((error: Error) => error);
    expect(refusal).toBeInstanceOf(ConfigError);
    expect((refusal as Error).message).toContain('has 2 names (hard links)');
  }
});

test('a file that is mounted by itself is refused, for its log would be another elsewhere', (context) => {
  const [place, mounted] = [join(folder, 'mesh.db'), join(folder, 'my mesh.db')];
  for (const each of [place, mounted]) writeFileSync(each, '');
  const mount = ['-m', 'bash', '-c', `mount --bind '${place}' '${mounted}' && exec "$@"`, 'bash'];
  const reason = attempt('unshare', ...mount, 'true');
  if (reason !== undefined) return context.skip(reason);
  const program = `import { SqliteStateStore } from '${dist}index.js';
    const state = new SqliteStateStore({ path: '${mounted}' });
    await state.load('k').catch((error) => console.log(error.code + ' ' + error.message));`;
  const words = [...mount, process.execPath, '--input-type=module', '-e', program];

  expect(execFileSync('unshare', words, { encoding: 'utf8', timeout: 30_000 })).toMatch(
    /^config .* is mounted by itself/,
  );
});

test('a path or an option that cannot work is refused at once, by name', async () => {
  const refused: [unknown, RegExp][] = [
    ['mesh.db', /expected \{ path \}, found a string/],
    [{}, /path is missing. Pass \{ path \}/],
    [undefined, /path is missing/],
    [{ path: ':memory:' }, /path is ':memory:', expected a file/],
    [{ path: `${path}\0` }, /path has a NUL/],
    [{ path: `file://${path}` }, /path is a URL/],
    [{ path, driver: 'sqlite3' }, /driver: expected better-sqlite3 or node:sqlite, or nothing, found 'sqlite3'/],
    [{ path, driver: '__proto__' }, /driver: expected/],
    [{ path, namespace: 'wal' }, /namespace: 'wal' would be a file/],
    [{ path, namespace: 'a-shm' }, /would be a file/],
    [{ path, tableName: 'x' }, /there is no option 'tableName'/],
  ];
  for (const make of [SqliteCoordinator, SqliteStateStore]) {
    for (const [options, message] of refused) {
      expect(() => new make(options as SqliteCoordinatorOptions)).toThrow(ConfigError);
      expect(() => new make(options as SqliteCoordinatorOptions)).toThrow(message);
    }
  }
});

test.runIf(process.platform === 'linux')('a path below /proc is refused as that, not as a full disk', async () => {
  const refusal = await start({ path: '/proc/mesh.db' }).catch((error: Error) => error);

  expect(refusal).toMatchObject({ code: 'config', message: expect.stringContaining('is in proc') });
});

test('a start under a clock that cannot be right is refused by name, and leaves nothing behind', async () => {
  for (const [shows, told] of [
    [Date.UTC(2300, 0), 'the year 2300'],
    [Number.NaN, 'NaN'],
  ] as const) {
    const store = new SqliteStore({ path, time: () => ({ nowMs: 1_000, wallMs: shows }) });
    const who = { replicaId: 'a', instance: 'a', firstEpoch: 0, seen: 0, adopts: false };
    const join = store.join({ ...who, config: { leaseMs: 6_000, shards: 1, format: 1 } });

    await expect(join).rejects.toMatchObject({ code: 'config', message: expect.stringContaining(`shows ${told}.`) });
    await store.close();
  }
  expect(readdirSync(folder)).toEqual([]);
});

test('a bad argument to the state store disturbs nobody', async () => {
  const coordinator = await start({ path });
  const state = new SqliteStateStore({ path });
  const events: string[] = [];
  for (const event of ['lost', 'unavailable', 'quarantine'] as const) coordinator.on(event, () => events.push(event));
  const turn = await coordinator.acquireTurn(await coordinator.reserve('chat'));
  await state.save('chat', 1, turn.fence);

  await expect(state.save('chat', 2, undefined as never)).rejects.toMatchObject({ code: 'bad-input' });

  await coordinator.acquireTurn(await coordinator.reserve('other'), { timeoutMs: 2_000 });
  turn.assertHeld();
  expect(events).toEqual([]);
  await state.close();
}, 30_000);

test.each(loads)('a value that %s cannot bind costs no connection', async (driver) => {
  const options = { path, driver, calmMs: CALM_MS };
  const [one, other] = [new Connection(options), new Connection(options)];
  const files = await Promise.all([one, other].map((each) => each.use((file) => file)));

  for (const value of [undefined, Symbol('v'), {}, Number.NaN]) {
    const call = one.use(({ sql }) => sql.run('INSERT INTO state VALUES (?, ?, ?)', 'k', 'v', value as never));
    await expect(call).rejects.toMatchObject({ code: 'unavailable' });
  }

  expect([one.file, other.file]).toEqual(files);
  expect(one.file).toBe(files[0]);
  one.close();
  other.close();
});

test('a library that is installed and not built is named with the reason', () => {
  const modules = join(folder, 'node_modules');
  const here = fileURLToPath(new URL('..', import.meta.url));
  mkdirSync(join(modules, 'better-sqlite3'), { recursive: true });
  mkdirSync(join(modules, '@botmesh'));
  writeFileSync(join(modules, 'better-sqlite3', 'package.json'), '{"type":"module","exports":"./index.js"}');
  const library = 'export default class { constructor() { throw new Error("No bindings file.\\nTried: a, b"); } }';
  writeFileSync(join(modules, 'better-sqlite3', 'index.js'), library);
  cpSync(join(here, 'dist'), join(folder, 'dist'), { recursive: true });
  writeFileSync(join(folder, 'package.json'), '{"type":"module"}');
  symlinkSync(join(here, '..', 'core'), join(modules, '@botmesh', 'core'));
  const program = `import { findDriver } from './dist/driver.js';
    await findDriver('better-sqlite3').catch((error) => console.log(error.code + ' ' + error.message));`;

  const message = run(program, folder);

  expect(message).toContain('config SQLite: better-sqlite3 cannot be loaded (No bindings file.). Run');
  expect(message).toContain('npm rebuild better-sqlite3');
  expect(readdirSync(modules)).toHaveLength(2);
});
