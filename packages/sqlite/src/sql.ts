import type { Database, Row, Statement, Value } from './driver.js';

/** Prepared statements by their text. */
export class Sql {
  readonly #database: Database;
  readonly #statements = new Map<string, Statement>();

  constructor(database: Database) {
    this.#database = database;
  }

  get(sql: string, ...values: Value[]): Row | undefined {
    return this.#prepared(sql).get(...values);
  }

  all(sql: string, ...values: Value[]): Row[] {
    return this.#prepared(sql).all(...values);
  }

  run(sql: string, ...values: Value[]): void {
    this.#prepared(sql).run(...values);
  }

  #prepared(sql: string): Statement {
    let statement = this.#statements.get(sql);
    if (statement === undefined) {
      statement = this.#database.prepare(sql);
      this.#statements.set(sql, statement);
    }
    return statement;
  }
}
