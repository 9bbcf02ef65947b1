import { ConfigError } from '@botmesh/core/spi';
import type { Database } from './driver.js';

/** The format of these tables, in SQLite's own user_version. */
const VERSION = 1;

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
    process TEXT NOT NULL
  );
  CREATE TABLE entry (
    seq INTEGER PRIMARY KEY, key TEXT NOT NULL, owner INTEGER NOT NULL, fence INTEGER NOT NULL, era INTEGER NOT NULL,
    batch INTEGER NOT NULL, offered INTEGER NOT NULL, id TEXT, body TEXT, max_attempts INTEGER, dedupe_ms REAL,
    attempt INTEGER, error TEXT
  );
  CREATE INDEX entry_key ON entry (key);
  CREATE INDEX entry_owner ON entry (owner);
  CREATE TABLE orphan (key TEXT PRIMARY KEY) WITHOUT ROWID;
  CREATE TABLE taken (name TEXT PRIMARY KEY) WITHOUT ROWID;
  CREATE TABLE done (number INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, until REAL NOT NULL);
  CREATE TABLE parked (
    seq INTEGER PRIMARY KEY, key TEXT NOT NULL, id TEXT, body TEXT NOT NULL, attempts INTEGER NOT NULL, error TEXT
  );
  CREATE TABLE pace (name TEXT PRIMARY KEY, until REAL NOT NULL) WITHOUT ROWID;
  CREATE INDEX pace_until ON pace (until);
  CREATE TABLE state (key TEXT PRIMARY KEY, value TEXT NOT NULL, fence INTEGER NOT NULL) WITHOUT ROWID;
`;

/**
 * Makes the tables if the file is new.
 *
 * @throws ConfigError (`config-mismatch`) when they are of a format this version does not know
 */
export function prepareSchema(database: Database): void {
  database.exec('PRAGMA busy_timeout = 200');
  if (versionOf(database) === VERSION) return;
  database.exec('PRAGMA journal_mode = WAL');
  database.exec('BEGIN IMMEDIATE');
  try {
    const found = versionOf(database);
    if (found === 0) database.exec(`${TABLES}; PRAGMA user_version = ${VERSION}`);
    else if (found !== VERSION) throw unknownFormat(found);
    database.exec('COMMIT');
  } catch (error) {
    database.exec('ROLLBACK');
    throw error;
  }
}

function versionOf(database: Database): number {
  return Number(database.prepare('PRAGMA user_version').get()?.user_version ?? 0);
}

function unknownFormat(found: number): ConfigError {
  const message = `SQLite: the file has tables of format ${found}, this version knows ${VERSION}. Use another path, or the version that wrote it.`;
  return new ConfigError(message, 'config-mismatch');
}
