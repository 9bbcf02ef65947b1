import { ConfigError } from '@botmesh/core/spi';

export type Value = string | number | null;
export type Row = Record<string, Value>;

export interface Statement {
  get(...values: Value[]): Row | undefined;
  all(...values: Value[]): Row[];
  run(...values: Value[]): unknown;
}

/** The little that both libraries have in common. All calls are synchronous. */
export interface Database {
  exec(sql: string): void;
  prepare(sql: string): Statement;
  close(): void;
}

export type DriverName = 'better-sqlite3' | 'node:sqlite';

/** @throws ConfigError when there is no such library */
export function checkDriver(driver: unknown): void {
  if (driver === undefined || (typeof driver === 'string' && Object.hasOwn(LOADERS, driver))) return;
  const found = typeof driver === 'string' ? `'${driver}'` : typeof driver;
  throw new ConfigError(`driver: expected ${Object.keys(LOADERS).join(' or ')}, or nothing, found ${found}.`);
}

/** Opens a file; throws what the library throws. */
export type Open = (path: string) => Database;

export interface Driver {
  readonly name: DriverName;
  readonly open: Open;
}

/**
 * The library to use: the one asked for, else better-sqlite3 if it is installed, else Node's own.
 *
 * @throws ConfigError when there is none
 */
export function findDriver(wanted?: DriverName): Promise<Driver> {
  const name = wanted ?? 'any';
  let found = FOUND.get(name);
  if (found === undefined) {
    found = load(wanted);
    FOUND.set(name, found);
  }
  return found;
}

const FOUND = new Map<string, Promise<Driver>>();

async function load(wanted: DriverName | undefined): Promise<Driver> {
  const failures: unknown[] = [];
  for (const name of wanted === undefined ? (['better-sqlite3', 'node:sqlite'] as const) : [wanted]) {
    try {
      return { name, open: await LOADERS[name]() };
    } catch (error) {
      failures.push(error);
    }
  }
  const which = wanted ?? 'better-sqlite3 or node:sqlite';
  const reason = firstLine(failures[0]);
  const message = `SQLite: ${which} cannot be loaded (${reason}). Run "npm install better-sqlite3", or "npm rebuild better-sqlite3" where it is installed, or use Node 22.13 or newer.`;
  throw new ConfigError(message, 'config', { cause: failures[0] });
}

function firstLine(error: unknown): string {
  return (error instanceof Error ? error.message : String(error)).split('\n', 1)[0]!.slice(0, 300);
}

const LOADERS: Record<DriverName, () => Promise<Open>> = {
  'better-sqlite3': async () => {
    const { default: Library } = await import('better-sqlite3');
    // The library loads its native part only when the first file is opened.
    new Library(':memory:').close();
    return (path) => new Library(path) as unknown as Database;
  },
  'node:sqlite': async () => {
    // The name is put together so that no tool resolves it on a Node that lacks it.
    const name = 'node:sqlite';
    const { DatabaseSync } = (await import(name)) as { DatabaseSync: new (path: string) => Database };
    return (path) => new DatabaseSync(path);
  },
};
