import type { Sql } from './sql.js';
import { fromColumn, toColumn } from './text.js';

/**
 * Long texts, apart from the rows they belong to and by their stamps: a seq or an epoch, which are never the same number.
 * SQLite reads a row whole when it looks for another one, and writes it whole when a number in it changes.
 */
export class LongTexts {
  readonly #sql: Sql;

  constructor(sql: Sql) {
    this.#sql = sql;
  }

  get(stamp: number): string {
    const row = this.#sql.get('SELECT text FROM long WHERE stamp = ?', stamp);
    return fromColumn(row?.text as string);
  }

  set(stamp: number, text: string): void {
    this.#sql.run('INSERT OR REPLACE INTO long (stamp, text) VALUES (?, ?)', stamp, toColumn(text));
  }

  delete(stamp: number): void {
    this.#sql.run('DELETE FROM long WHERE stamp = ?', stamp);
  }
}
