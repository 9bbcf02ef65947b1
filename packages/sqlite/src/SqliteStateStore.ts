import { ConfigError, StaleFenceError, type StateStore, type StoredState } from '@botmesh/core/spi';
import type { DriverName } from './driver.js';
import { type OpenFile, openFile, whileBusy } from './file.js';
import { fileOf } from './namespace.js';
import { toColumn } from './text.js';

export interface SqliteStateStoreOptions {
  /** The database file; the coordinator's own will do. */
  path: string;
  namespace?: string;
  driver?: DriverName;
}

/** The state of chats in a SQLite file, each write held against the fence of the last. */
export class SqliteStateStore implements StateStore {
  readonly #path: string;
  readonly #driver: DriverName | undefined;
  #file: Promise<OpenFile> | undefined;

  constructor(options: SqliteStateStoreOptions) {
    if (typeof options?.path !== 'string' || options.path === '') {
      throw new ConfigError('SqliteStateStore: path is missing. Pass { path } with the file to keep state in.');
    }
    this.#path = fileOf(options.path, options.namespace);
    this.#driver = options.driver;
  }

  async load(key: string): Promise<StoredState | null> {
    const { sql } = await this.#open();
    const row = await whileBusy(this.#path, () =>
      sql.get('SELECT value, fence FROM state WHERE key = ?', toColumn(key)),
    );
    if (row === undefined) return null;
    return { value: JSON.parse(row.value as string) as unknown, fence: row.fence as number };
  }

  async save(key: string, value: unknown, fence: number): Promise<void> {
    const { sql } = await this.#open();
    const json = JSON.stringify(value) ?? 'null';
    const written = await whileBusy(this.#path, () =>
      // One statement is one step: the write happens only under a fence that is not older.
      sql.get(
        `INSERT INTO state (key, value, fence) VALUES (?, ?, ?)
         ON CONFLICT (key) DO UPDATE SET value = excluded.value, fence = excluded.fence WHERE fence <= excluded.fence
         RETURNING fence`,
        ...[toColumn(key), json, fence],
      ),
    );
    if (written !== undefined) return;
    const newest = sql.get('SELECT fence FROM state WHERE key = ?', toColumn(key))?.fence as number;
    throw new StaleFenceError(fence, newest);
  }

  async delete(key: string): Promise<void> {
    const { sql } = await this.#open();
    await whileBusy(this.#path, () => sql.run('DELETE FROM state WHERE key = ?', toColumn(key)));
  }

  /** Closes the file. A later call opens it again. */
  async close(): Promise<void> {
    const file = await this.#file?.catch(() => undefined);
    this.#file = undefined;
    file?.database.close();
  }

  #open(): Promise<OpenFile> {
    this.#file ??= openFile(this.#path, this.#driver);
    this.#file.catch(() => {
      this.#file = undefined;
    });
    return this.#file;
  }
}
