import type { Sql } from './sql.js';
import { fromColumn, toColumn } from './text.js';

/** No step looks at more than this. */
const SHARE = 4096;

/** Keys whose head is a message that nobody could take over yet. */
export class Orphans implements Iterable<string> {
  readonly #sql: Sql;

  constructor(sql: Sql) {
    this.#sql = sql;
  }

  add(key: string): this {
    this.#sql.run('INSERT OR IGNORE INTO orphan VALUES (?)', toColumn(key));
    return this;
  }

  delete(key: string): boolean {
    this.#sql.run('DELETE FROM orphan WHERE key = ?', toColumn(key));
    return true;
  }

  get size(): number {
    return this.#sql.get('SELECT count(*) AS n FROM orphan')?.n as number;
  }

  [Symbol.iterator](): Iterator<string> {
    const rows = this.#sql.all('SELECT key FROM orphan LIMIT ?', SHARE);
    return rows.map((row) => fromColumn(row.key as string)).values();
  }
}

/** Keys whose head is a suspect message that waits for a replica which has none, longest first. */
export class Suspects implements Iterable<string> {
  readonly #sql: Sql;

  constructor(sql: Sql) {
    this.#sql = sql;
  }

  add(key: string): this {
    this.#sql.run('INSERT OR IGNORE INTO suspect (key) VALUES (?)', toColumn(key));
    return this;
  }

  delete(key: string): boolean {
    this.#sql.run('DELETE FROM suspect WHERE key = ?', toColumn(key));
    return true;
  }

  /** One is read for each that is asked for: as a rule that is the first. */
  *[Symbol.iterator](): Generator<string, undefined> {
    let last = 0;
    for (;;) {
      const row = this.#sql.get('SELECT number, key FROM suspect WHERE number > ? ORDER BY number LIMIT 1', last);
      if (row === undefined) return;
      last = row.number as number;
      yield fromColumn(row.key as string);
    }
  }
}

/** Ids of messages that wait, run or are parked. */
export class Taken {
  readonly #sql: Sql;

  constructor(sql: Sql) {
    this.#sql = sql;
  }

  has(name: string): boolean {
    return this.#sql.get('SELECT 1 FROM taken WHERE name = ?', toColumn(name)) !== undefined;
  }

  add(name: string): this {
    this.#sql.run('INSERT OR IGNORE INTO taken VALUES (?)', toColumn(name));
    return this;
  }

  delete(name: string): boolean {
    this.#sql.run('DELETE FROM taken WHERE name = ?', toColumn(name));
    return true;
  }
}

/** Ids of finished messages, and until when they are remembered. */
export class Done implements Iterable<[string, number]> {
  readonly #sql: Sql;

  constructor(sql: Sql) {
    this.#sql = sql;
  }

  get(name: string): number | undefined {
    return this.#sql.get('SELECT until FROM done WHERE name = ?', toColumn(name))?.until as number | undefined;
  }

  set(name: string, untilMs: number): this {
    this.#sql.run('INSERT OR REPLACE INTO done (name, until) VALUES (?, ?)', toColumn(name), untilMs);
    return this;
  }

  delete(name: string): boolean {
    this.#sql.run('DELETE FROM done WHERE name = ?', toColumn(name));
    return true;
  }

  /** In the order of finishing, as the reference keeps them. */
  [Symbol.iterator](): Iterator<[string, number]> {
    const rows = this.#sql.all('SELECT name, until FROM done ORDER BY number LIMIT ?', SHARE);
    return rows.map((row): [string, number] => [fromColumn(row.name as string), row.until as number]).values();
  }
}
