import type { Sql } from './sql.js';
import { fromColumn, toColumn } from './text.js';

/** No step looks at more than this. */
const SHARE = 4096;

/** Shared paces by name, and until when their slots are taken. */
export class Paces implements Iterable<[string, number]> {
  readonly #sql: Sql;

  constructor(sql: Sql) {
    this.#sql = sql;
  }

  get(name: string): number | undefined {
    return this.#sql.get('SELECT until FROM pace WHERE name = ?', toColumn(name))?.until as number | undefined;
  }

  set(name: string, untilMs: number): this {
    this.#sql.run('INSERT OR REPLACE INTO pace (name, until) VALUES (?, ?)', toColumn(name), untilMs);
    return this;
  }

  delete(name: string): boolean {
    this.#sql.run('DELETE FROM pace WHERE name = ?', toColumn(name));
    return true;
  }

  /** Those that are over soonest first: only they may be forgotten. */
  [Symbol.iterator](): Iterator<[string, number]> {
    const rows = this.#sql.all('SELECT name, until FROM pace ORDER BY until LIMIT ?', SHARE);
    return rows.map((row): [string, number] => [fromColumn(row.name as string), row.until as number]).values();
  }
}
