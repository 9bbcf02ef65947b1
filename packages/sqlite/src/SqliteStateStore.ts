import {
  checkOptionNames,
  checkStateKey,
  checkStateWrite,
  StaleFenceError,
  type StateStore,
  type StoredState,
} from '@botmesh/core/spi';
import { CALM_MS, Connection } from './Connection.js';
import { checkDriver, type DriverName } from './driver.js';
import { explain } from './explain.js';
import { demandCurrent } from './file.js';
import { checkPath, fileOf } from './namespace.js';
import type { Sql } from './sql.js';
import { toColumn } from './text.js';

export interface SqliteStateStoreOptions {
  /** The database file; the coordinator's own will do. */
  path: string;
  namespace?: string;
  driver?: DriverName;
}

const NAMES = { path: true, namespace: true, driver: true } as const;

/** The state of chats in a SQLite file, each write held against the fence of the last. */
export class SqliteStateStore implements StateStore {
  readonly #path: string;
  readonly #connection: Connection;

  /** @throws ConfigError naming the option that cannot work */
  constructor(options: SqliteStateStoreOptions) {
    checkPath('SqliteStateStore', options);
    checkOptionNames('SqliteStateStore', options, NAMES);
    const { path, namespace, driver } = options;
    checkDriver(driver);
    this.#path = fileOf(path, namespace);
    this.#connection = new Connection({ path: this.#path, driver, calmMs: CALM_MS });
  }

  async load(key: string): Promise<StoredState | null> {
    checkStateKey(key);
    const row = await this.#use((sql) => sql.get('SELECT value, fence FROM state WHERE key = ?', toColumn(key)));
    if (row === undefined) return null;
    return { value: this.#parse(row.value as string), fence: row.fence as number };
  }

  async save(key: string, value: unknown, fence: number): Promise<void> {
    const json = checkStateWrite(key, value, fence);
    const newest = await this.#use((sql) => {
      // One statement is one step: the write happens only under a fence that is not older.
      const written = sql.get(
        `INSERT INTO state (key, value, fence) VALUES (?, ?, ?)
         ON CONFLICT (key) DO UPDATE SET value = excluded.value, fence = excluded.fence WHERE fence <= excluded.fence
         RETURNING fence`,
        ...[toColumn(key), json, fence],
      );
      return written ?? sql.get('SELECT fence FROM state WHERE key = ?', toColumn(key));
    });
    if (newest?.fence !== fence) throw new StaleFenceError(fence, newest?.fence as number);
  }

  async delete(key: string): Promise<void> {
    checkStateKey(key);
    await this.#use((sql) => sql.run('DELETE FROM state WHERE key = ?', toColumn(key)));
  }

  /** Closes the file. A later call opens it again. */
  async close(): Promise<void> {
    this.#connection.close();
  }

  #use<T>(call: (sql: Sql) => T): Promise<T> {
    return this.#connection.use((file) => {
      demandCurrent(this.#path, file);
      return call(file.sql);
    });
  }

  #parse(value: string): unknown {
    try {
      return JSON.parse(value) as unknown;
    } catch (error) {
      throw explain(this.#path, error);
    }
  }
}
