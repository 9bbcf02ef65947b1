import { existsSync, statfsSync, statSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { ConfigError } from '@botmesh/core/spi';
import { type Database, type Driver, type DriverName, findDriver } from './driver.js';
import { prepareSchema } from './schema.js';
import { Sql } from './sql.js';

/** File systems that several hosts may share, by their number in statfs(2): SQLite's locks cannot be trusted there. */
const NETWORK: Record<number, string> = {
  26985: 'NFS',
  20859: 'SMB',
  4283649346: 'CIFS',
  4266872130: 'SMB2',
  16914839: '9p',
  12805120: 'Ceph',
  1397113167: 'AFS',
  18225520: 'GFS2',
  1952539503: 'OCFS2',
  198183888: 'Lustre',
};

/** An open database file, and which file that is. */
export interface OpenFile {
  readonly database: Database;
  readonly sql: Sql;
  /** Device, inode and time of birth: another file under the same path has another one. */
  readonly identity: string;
}

/** @throws ConfigError when the path cannot work, whatever else */
export async function openFile(path: string, wanted?: DriverName): Promise<OpenFile> {
  checkFolder(path);
  const driver = await findDriver(wanted);
  const database = connect(driver, path);
  try {
    prepareSchema(database);
    // Short: the call blocks the event loop while it waits. Longer waits are made between attempts.
    database.exec('PRAGMA busy_timeout = 2; PRAGMA synchronous = NORMAL; PRAGMA wal_autocheckpoint = 0');
    const sql = new Sql(database);
    const identity = identityOf(path);
    if (identity === undefined) throw new Error(`SQLite: ${path} was removed while it was opened.`);
    return { database, sql, identity };
  } catch (error) {
    database.close();
    if (isNoDatabase(error)) {
      throw new ConfigError(`SQLite: ${path} is not a SQLite database. Use another path.`, 'config', { cause: error });
    }
    throw error;
  }
}

/** Whether `file` is still what is at `path`. */
export function isCurrent(path: string, file: OpenFile): boolean {
  return identityOf(path) === file.identity;
}

function identityOf(path: string): string | undefined {
  const found = statSync(path, { bigint: true, throwIfNoEntry: false });
  // An inode's number is used again; with the time it was made it is not.
  return found === undefined ? undefined : `${found.dev}:${found.ino}:${found.birthtimeNs}`;
}

/** How long a step goes on trying while others hold the file. */
const BUSY_LIMIT_MS = 1_000;

/**
 * Makes the call until the file is free. Waits between attempts, not in them: the event loop goes on while others write.
 *
 * @throws Error when it stays locked
 */
export async function whileBusy<T>(path: string, call: () => T): Promise<T> {
  const startedMs = performance.now();
  for (;;) {
    try {
      return call();
    } catch (error) {
      if (!isBusy(error)) throw error;
      if (performance.now() - startedMs > BUSY_LIMIT_MS) {
        throw new Error(`SQLite: ${path} is locked by another writer.`, { cause: error });
      }
    }
    await new Promise((resolve) => setTimeout(resolve, 1 + Math.random() * 4));
  }
}

function isBusy(error: unknown): boolean {
  const { code, errcode } = (error ?? {}) as { code?: unknown; errcode?: unknown };
  if (typeof errcode === 'number') return (errcode & 0xff) === 5 || (errcode & 0xff) === 6;
  return typeof code === 'string' && /^SQLITE_(BUSY|LOCKED)/.test(code);
}

function isNoDatabase(error: unknown): boolean {
  const { code, errcode } = (error ?? {}) as { code?: unknown; errcode?: unknown };
  return code === 'SQLITE_NOTADB' || errcode === 26;
}

function connect(driver: Driver, path: string): Database {
  try {
    return driver.open(path);
  } catch (cause) {
    throw new Error(`SQLite: ${path} cannot be opened.`, { cause });
  }
}

function checkFolder(path: string): void {
  const folder = dirname(resolve(path));
  if (!existsSync(folder)) {
    throw new ConfigError(`SQLite: the folder ${folder} does not exist. Make it first.`);
  }
  const kind = NETWORK[statfsSync(folder).type];
  if (kind === undefined) return;
  const message = `SQLite: ${folder} is on a network file system (${kind}), where its locks cannot be trusted. Use a local disk, or another backend for several hosts.`;
  throw new ConfigError(message);
}
