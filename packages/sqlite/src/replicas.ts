import type { ApplyAnswer, LedgerRow, Note } from '@botmesh/core/spi';
import type { Row } from './driver.js';
import { type Entries, Tickets } from './entries.js';
import { LongTexts } from './long.js';
import type { Sql } from './sql.js';
import { fromColumn, fromTextOrNull, textOrNull, toColumn } from './text.js';

const COLUMNS =
  'epoch, replica_id, instance, first_epoch, is_proven, beat, beat_number, since, replaced, adopts, batch, notes, trial';

/** Each heartbeat writes the row: a few pages do not matter. */
const LONGEST_IN_ROW = 4096;

/** Stands for a reply that is kept apart: one that hands out messages can be long. */
const APART = '';
const READ_COLUMNS = `${COLUMNS}, reply = '${APART}' AS is_reply_apart`;

/** The live epochs. */
export class Replicas {
  readonly #sql: Sql;
  readonly #long: LongTexts;
  readonly #entries: Entries;
  readonly #process: string;
  readonly #loaded = new Map<number, SqliteRow>();
  readonly #added = new Map<number, LedgerRow>();
  readonly #deleted = new Set<number>();

  /** `process` is written beside the rows that are added. */
  constructor(sql: Sql, entries: Entries, process: string) {
    this.#sql = sql;
    this.#long = new LongTexts(sql);
    this.#entries = entries;
    this.#process = process;
  }

  get(epoch: number): LedgerRow | undefined {
    if (this.#deleted.has(epoch)) return undefined;
    const known = this.#loaded.get(epoch) ?? this.#added.get(epoch);
    if (known !== undefined || epoch === 0) return known;
    const row = this.#sql.get(`SELECT ${READ_COLUMNS} FROM replica WHERE epoch = ?`, epoch);
    return row === undefined ? undefined : this.#keep(row);
  }

  set(epoch: number, row: LedgerRow): this {
    this.#added.set(epoch, row);
    return this;
  }

  delete(epoch: number): boolean {
    this.#deleted.add(epoch);
    this.#sql.run('DELETE FROM replica WHERE epoch = ?', epoch);
    this.#long.delete(epoch);
    return true;
  }

  values(): Iterable<LedgerRow> {
    const rows = new Map<number, LedgerRow>();
    for (const row of this.#sql.all(`SELECT ${READ_COLUMNS} FROM replica ORDER BY epoch`)) {
      const kept = this.#keep(row);
      rows.set(kept.epoch, kept);
    }
    for (const [epoch, row] of this.#added) if (!this.#deleted.has(epoch)) rows.set(epoch, row);
    return rows.values();
  }

  flush(): void {
    for (const row of this.#loaded.values()) if (!this.#deleted.has(row.epoch)) row.flush(this.#sql);
    for (const row of this.#added.values()) if (!this.#deleted.has(row.epoch)) this.#insert(row);
  }

  #keep(row: Row): SqliteRow {
    const epoch = row.epoch as number;
    const known = this.#loaded.get(epoch);
    if (known !== undefined) return known;
    const kept = new SqliteRow(row, this.#sql, this.#long, this.#entries);
    this.#loaded.set(epoch, kept);
    return kept;
  }

  #insert(row: LedgerRow): void {
    const {
      epoch,
      replicaId,
      instance,
      firstEpoch,
      isProven,
      beat,
      beatNumber,
      since,
      replaced,
      adopts,
      batch,
      trial,
    } = row;
    this.#sql.run(
      `INSERT INTO replica (${COLUMNS}, process) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
      ...[epoch, toColumn(replicaId), instance, firstEpoch, isProven ? 1 : 0, beat, beatNumber, since],
      ...[replaced ? 1 : 0, adopts ? 1 : 0, batch, JSON.stringify(row.notes), textOrNull(trial), this.#process],
    );
  }
}

const NONE: readonly Note[] = [];

class SqliteRow implements LedgerRow {
  readonly epoch: number;
  readonly replicaId: string;
  readonly instance: string;
  readonly firstEpoch: number;
  isProven: boolean;
  readonly tickets: Tickets;
  beat: number;
  beatNumber: number;
  since: number;
  replaced: boolean;
  adopts: boolean;
  batch: number;
  notes: readonly Note[];
  trial: string | null;
  readonly #sql: Sql;
  readonly #before: string;
  readonly #notesBefore: readonly Note[];
  /** Undefined until it is asked for or set: it may be long, and few steps need it. */
  #reply: ApplyAnswer | null | undefined;
  #isReplySet = false;
  readonly #isReplyApart: boolean;
  readonly #long: LongTexts;

  constructor(row: Row, sql: Sql, long: LongTexts, entries: Entries) {
    this.epoch = row.epoch as number;
    this.replicaId = fromColumn(row.replica_id as string);
    this.instance = row.instance as string;
    this.firstEpoch = row.first_epoch as number;
    this.isProven = row.is_proven === 1;
    this.beat = row.beat as number;
    this.beatNumber = row.beat_number as number;
    this.since = row.since as number;
    this.replaced = row.replaced === 1;
    this.adopts = row.adopts === 1;
    this.batch = row.batch as number;
    this.notes = row.notes === '[]' ? NONE : (JSON.parse(row.notes as string) as Note[]);
    this.#notesBefore = this.notes;
    this.trial = fromTextOrNull(row.trial);
    this.tickets = new Tickets(entries, this.epoch);
    this.#isReplyApart = row.is_reply_apart === 1;
    this.#sql = sql;
    this.#long = long;
    this.#before = this.#mutable();
  }

  get reply(): ApplyAnswer | null {
    if (this.#reply === undefined) {
      const text = this.#isReplyApart
        ? this.#long.get(this.epoch)
        : this.#sql.get('SELECT reply FROM replica WHERE epoch = ?', this.epoch)?.reply;
      this.#reply = typeof text === 'string' ? (JSON.parse(text) as ApplyAnswer) : null;
    }
    return this.#reply;
  }

  set reply(reply: ApplyAnswer | null) {
    this.#reply = reply;
    this.#isReplySet = true;
  }

  flush(sql: Sql): void {
    if (this.#isReplySet) this.#flushReply(sql);
    if (this.notes !== this.#notesBefore) {
      sql.run('UPDATE replica SET notes = ? WHERE epoch = ?', JSON.stringify(this.notes), this.epoch);
    }
    if (this.#mutable() === this.#before) return;
    sql.run(
      'UPDATE replica SET is_proven = ?, beat = ?, beat_number = ?, since = ?, replaced = ?, adopts = ?, trial = ? WHERE epoch = ?',
      ...[
        this.isProven ? 1 : 0,
        this.beat,
        this.beatNumber,
        this.since,
        this.replaced ? 1 : 0,
        this.adopts ? 1 : 0,
        textOrNull(this.trial),
        this.epoch,
      ],
    );
  }

  #flushReply(sql: Sql): void {
    const text = JSON.stringify(this.#reply);
    const isApart = text.length > LONGEST_IN_ROW;
    if (isApart) this.#long.set(this.epoch, text);
    else if (this.#isReplyApart) this.#long.delete(this.epoch);
    sql.run('UPDATE replica SET batch = ?, reply = ? WHERE epoch = ?', this.batch, isApart ? APART : text, this.epoch);
  }

  #mutable(): string {
    return `${this.isProven} ${this.beat} ${this.beatNumber} ${this.since} ${this.replaced} ${this.adopts} ${this.trial}`;
  }
}
