import type { ParkedView } from '@botmesh/core/spi';
import type { Sql } from './sql.js';
import { fromColumn, fromTextOrNull, textOrNull, toColumn } from './text.js';

/** Messages that failed too often, by the seq they had. */
export class Parked {
  readonly #sql: Sql;

  constructor(sql: Sql) {
    this.#sql = sql;
  }

  get(seq: number): ParkedView | undefined {
    const row = this.#sql.get('SELECT key, id, body, attempts, error FROM parked WHERE seq = ?', seq);
    if (row === undefined) return undefined;
    return {
      seq,
      key: fromColumn(row.key as string),
      id: fromTextOrNull(row.id),
      body: fromColumn(row.body as string),
      attempts: row.attempts as number,
      error: fromTextOrNull(row.error),
    };
  }

  set(seq: number, { key, id, body, attempts, error }: ParkedView): this {
    this.#sql.run(
      'INSERT OR REPLACE INTO parked (seq, key, id, body, attempts, error) VALUES (?, ?, ?, ?, ?, ?)',
      ...[seq, toColumn(key), textOrNull(id), toColumn(body), attempts, textOrNull(error)],
    );
    return this;
  }

  delete(seq: number): boolean {
    this.#sql.run('DELETE FROM parked WHERE seq = ?', seq);
    return true;
  }
}
