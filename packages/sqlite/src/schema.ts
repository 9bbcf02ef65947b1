import { ConfigError } from '@botmesh/core/spi';
import type { Database } from './driver.js';

/** The format of these tables, in SQLite's own user_version. */
const VERSION = 1;

/** Small: a step changes a few rows on four pages, and writes each page as a whole. */
const PAGE_BYTES = 1024;

/**
 * A table WITHOUT ROWID has its rows in the tree that is searched, so a search reads the rows it passes: they must be short.
 * Texts of any length are the last column of a table with a rowid.
 */
const TABLES = `
  CREATE TABLE mesh (
    id INTEGER PRIMARY KEY CHECK (id = 1), config TEXT, run TEXT, era INTEGER NOT NULL, quarantine_ms REAL NOT NULL,
    last INTEGER NOT NULL
  );
  INSERT INTO mesh VALUES (1, NULL, NULL, 0, 0, 0);
  CREATE TABLE replica (
    epoch INTEGER PRIMARY KEY, replica_id TEXT NOT NULL, instance TEXT NOT NULL, first_epoch INTEGER NOT NULL,
    is_proven INTEGER NOT NULL, beat REAL NOT NULL, beat_number INTEGER NOT NULL, since REAL NOT NULL,
    replaced INTEGER NOT NULL, adopts INTEGER NOT NULL, batch INTEGER NOT NULL, reply TEXT, notes TEXT NOT NULL,
    process TEXT NOT NULL, trial TEXT
  );
  CREATE TABLE entry (
    key TEXT NOT NULL, seq INTEGER NOT NULL, owner INTEGER NOT NULL, fence INTEGER NOT NULL, era INTEGER NOT NULL,
    batch INTEGER NOT NULL, offered INTEGER NOT NULL, id TEXT, body TEXT, max_attempts INTEGER, dedupe_ms REAL,
    attempt INTEGER, error TEXT, suspect INTEGER NOT NULL, PRIMARY KEY (key, seq)
  ) WITHOUT ROWID;
  CREATE INDEX entry_owner ON entry (owner, seq);
  CREATE TABLE long (stamp INTEGER PRIMARY KEY, text TEXT NOT NULL);
  CREATE TABLE orphan (key TEXT PRIMARY KEY) WITHOUT ROWID;
  CREATE TABLE suspect (number INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE);
  CREATE TABLE taken (name TEXT PRIMARY KEY) WITHOUT ROWID;
  CREATE TABLE done (number INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, until REAL NOT NULL);
  CREATE TABLE parked (
    seq INTEGER PRIMARY KEY, key TEXT NOT NULL, id TEXT, attempts INTEGER NOT NULL, error TEXT, body TEXT NOT NULL
  );
  CREATE TABLE pace (name TEXT PRIMARY KEY, until REAL NOT NULL) WITHOUT ROWID;
  CREATE INDEX pace_until ON pace (until);
  CREATE TABLE state (key TEXT PRIMARY KEY, fence INTEGER NOT NULL, value TEXT NOT NULL);
`;

/** Their names, as SQLite lists them. */
const NAMES = 'done entry long mesh orphan pace parked replica state suspect taken';

/**
 * Makes the tables if the file is new.
 *
 * @throws ConfigError (`config-mismatch`) when they are of a format this version does not know
 * @throws ConfigError when the file is another program's
 */
export function prepareSchema(database: Database, path: string): void {
  // In a transaction, or it would see half of what another process makes at this moment.
  const isReady = inTransaction(database, 'BEGIN', () => isPrepared(database, path));
  if (!isReady) database.exec(`PRAGMA page_size = ${PAGE_BYTES}`);
  // Also where the tables are there: a copy that SQLite made has no log.
  const mode = database.prepare('PRAGMA journal_mode = WAL').get()?.journal_mode;
  if (mode !== 'wal') {
    throw new ConfigError(`SQLite: ${path} cannot keep a log beside it (journal_mode = WAL). Use a local disk.`);
  }
  if (isReady) return;
  inTransaction(database, 'BEGIN IMMEDIATE', () => {
    if (!isPrepared(database, path)) database.exec(`${TABLES}; PRAGMA user_version = ${VERSION}`);
  });
}

function inTransaction<T>(database: Database, begin: string, act: () => T): T {
  database.exec(begin);
  try {
    const result = act();
    database.exec('COMMIT');
    return result;
  } catch (error) {
    rollBack(database);
    throw error;
  }
}

export function rollBack(database: Database): void {
  try {
    database.exec('ROLLBACK');
  } catch {
    // The library has done so itself, or the connection is beyond use.
  }
}

/** Whether the tables are there; false for an empty file. */
function isPrepared(database: Database, path: string): boolean {
  const version = Number(database.prepare('PRAGMA user_version').get()?.user_version ?? 0);
  const rows = database.prepare("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name").all();
  const names = rows.map((row) => row.name).join(' ');
  if (version === 0 && names === '') return false;
  if (version === VERSION && names === NAMES) return true;
  if (names.split(' ').includes('mesh') && version > VERSION) throw unknownFormat(path, version);
  throw new ConfigError(`SQLite: ${path} is a database of another program. Use a path of its own.`);
}

function unknownFormat(path: string, found: number): ConfigError {
  const message = `SQLite: ${path} has tables of format ${found}, this version knows ${VERSION}. Use another path, or the version that wrote it.`;
  return new ConfigError(message, 'config-mismatch');
}
