import { statfsSync } from 'node:fs';
import { dirname } from 'node:path';
import { BotmeshError, ConfigError, CoordinationUnavailableError } from '@botmesh/core/spi';
import { writersOf } from './locks.js';

/**
 * - `busy`: another connection holds the file
 * - `full`: no room on the disk
 * - `denied`: this user may not write it
 * - `damaged`: what is in it is no database any more
 * - `refused`: a value or a statement of ours; the connection is sound
 * - `broken`: the disk, or anything else
 */
export type Fault = 'busy' | 'full' | 'denied' | 'damaged' | 'refused' | 'broken';

/** Primary result codes of SQLite. */
const FAULT_OF_RESULT: Readonly<Record<number, Fault>> = {
  3: 'denied',
  5: 'busy',
  6: 'busy',
  8: 'denied',
  11: 'damaged',
  13: 'full',
  18: 'refused',
  19: 'refused',
  20: 'refused',
  23: 'denied',
  25: 'refused',
  26: 'damaged',
};

const FAULT_OF_NAME: Readonly<Record<string, Fault>> = {
  SQLITE_PERM: 'denied',
  SQLITE_BUSY: 'busy',
  SQLITE_LOCKED: 'busy',
  SQLITE_READONLY: 'denied',
  SQLITE_CORRUPT: 'damaged',
  SQLITE_FULL: 'full',
  SQLITE_AUTH: 'denied',
  SQLITE_TOOBIG: 'refused',
  SQLITE_CONSTRAINT: 'refused',
  SQLITE_MISMATCH: 'refused',
  SQLITE_RANGE: 'refused',
  ERR_INVALID_ARG_TYPE: 'refused',
  ERR_OUT_OF_RANGE: 'refused',
  SQLITE_NOTADB: 'damaged',
  EACCES: 'denied',
  EPERM: 'denied',
  EROFS: 'denied',
  ENOSPC: 'full',
  EDQUOT: 'full',
};

/** What kind of fault an error of either library, or of the file system, tells of. */
export function faultOf(error: unknown): Fault {
  const { code, errcode } = (error ?? {}) as { code?: unknown; errcode?: unknown };
  if (typeof errcode === 'number') return FAULT_OF_RESULT[errcode & 0xff] ?? 'broken';
  if (typeof code === 'string') return FAULT_OF_NAME[code.replace(/^(SQLITE_[A-Z]+)_.*/, '$1')] ?? 'broken';
  // What better-sqlite3 says of a value that it cannot bind, and of a connection that is closed.
  if (error instanceof TypeError || error instanceof RangeError)
    return /not open/.test(error.message) ? 'broken' : 'refused';
  // A text in a column that is no JSON. The error quotes it, so it may not be passed on.
  return error instanceof SyntaxError ? 'damaged' : 'broken';
}

/**
 * The error as ours: which file, what is wrong, what to do. A `ConfigError` for what no waiting mends, so that a start
 * ends at once; a `CoordinationUnavailableError` for what is tried again.
 */
export function explain(path: string, error: unknown): BotmeshError {
  if (error instanceof BotmeshError) return error;
  const fault = faultOf(error);
  const options = error instanceof SyntaxError ? {} : { cause: error };
  if (fault === 'damaged') return new ConfigError(`SQLite: ${damaged(path)}`, 'config', options);
  if (fault === 'denied') return new ConfigError(`SQLite: ${denied(path)}`, 'config', options);
  const isFull = fault === 'full' || (fault === 'broken' && hasNoRoom(path));
  const what = fault === 'busy' ? busy(path) : isFull ? full(path) : broken(path, error);
  return new CoordinationUnavailableError('unavailable', `SQLite: ${what}`, options);
}

export function damaged(path: string): string {
  return `${path} is not a SQLite database, or is damaged. Use another path, or stop all replicas and put a copy in its place.`;
}

function denied(path: string): string {
  return `${path} cannot be written by this process. Let its user write the file, its -wal and -shm, and their folder.`;
}

function busy(path: string): string {
  const writers = writersOf(path);
  const who = writers.length === 0 ? '' : ` (process ${writers.join(', ')})`;
  return `${path} is locked by another writer${who}. It goes on when that one ends its transaction, or is ended.`;
}

function full(path: string): string {
  return `the disk of ${path} is full. Make room; it goes on by itself.`;
}

function broken(path: string, error: unknown): string {
  const { code, errcode } = (error ?? {}) as { code?: unknown; errcode?: unknown };
  const which = [code, errcode].filter((each) => typeof each === 'string' || typeof each === 'number').join(' ');
  return `${path} cannot be read or written (${which === '' ? 'see the cause' : which}). Look at the disk and the system's log.`;
}

/** SQLite tells of a full disk in other words where it has to enlarge its index. */
function hasNoRoom(path: string): boolean {
  try {
    return statfsSync(dirname(path)).bavail === 0;
  } catch {
    return false;
  }
}
