import type { LedgerEntry, LedgerMessage, LedgerQueue } from '@botmesh/core/spi';
import type { Row } from './driver.js';
import type { Sql } from './sql.js';
import { fromColumn, fromTextOrNull, textOrNull, toColumn } from './text.js';

const COLUMNS = 'seq, key, owner, fence, era, batch, offered, id, body, max_attempts, dedupe_ms, attempt, error';
/** So many entries of a queue are read at a time. */
const PAGE = 64;

interface Loaded {
  readonly entry: LedgerEntry;
  /** What the table has of it; undefined for one that is not in the table yet. */
  before: string | undefined;
}

/** The entries a step touches: each is one object, however often it is asked for, and is written once, at the end. */
export class Entries {
  readonly #sql: Sql;
  readonly #loaded = new Map<number, Loaded>();

  constructor(sql: Sql) {
    this.#sql = sql;
  }

  get(seq: number): LedgerEntry | undefined {
    const known = this.#loaded.get(seq);
    if (known !== undefined) return known.entry;
    return this.#keep(this.#sql.get(`SELECT ${COLUMNS} FROM entry WHERE seq = ?`, seq));
  }

  /** The first of a key. One that this step adds comes after all that were there. */
  head(key: string): LedgerEntry | undefined {
    const row = this.#sql.get(`SELECT ${COLUMNS} FROM entry WHERE key = ? ORDER BY seq LIMIT 1`, toColumn(key));
    if (row !== undefined) return this.#keep(row);
    for (const { entry, before } of this.#loaded.values()) if (before === undefined && entry.key === key) return entry;
    return undefined;
  }

  /** Up to a page of a key's entries behind `seq`, those in the table first, which are older. */
  pageAfter(key: string, seq: number): LedgerEntry[] {
    const rows = this.#sql.all(
      `SELECT ${COLUMNS} FROM entry WHERE key = ? AND seq > ? ORDER BY seq LIMIT ${PAGE}`,
      ...[toColumn(key), seq],
    );
    const page = rows.map((row) => this.#keep(row)!);
    if (page.length === PAGE) return page;
    for (const { entry, before } of this.#loaded.values()) {
      if (before === undefined && entry.key === key && entry.seq > seq) page.push(entry);
    }
    return page;
  }

  ownedBy(epoch: number): LedgerEntry[] {
    const rows = this.#sql.all(`SELECT ${COLUMNS} FROM entry WHERE owner = ? ORDER BY seq`, epoch);
    const owned = rows.map((row) => this.#keep(row)!).filter((entry) => entry.owner === epoch);
    const known = new Set(owned);
    for (const { entry } of this.#loaded.values()) if (entry.owner === epoch && !known.has(entry)) owned.push(entry);
    return owned;
  }

  add(entry: LedgerEntry): void {
    this.#loaded.set(entry.seq, { entry, before: undefined });
  }

  remove(entry: LedgerEntry): void {
    const known = this.#loaded.get(entry.seq);
    if (known === undefined) return;
    this.#loaded.delete(entry.seq);
    if (known.before !== undefined) this.#sql.run('DELETE FROM entry WHERE seq = ?', entry.seq);
  }

  flush(): void {
    for (const { entry, before } of this.#loaded.values()) {
      if (before === undefined) this.#insert(entry);
      else if (before !== mutable(entry)) this.#update(entry);
    }
  }

  #keep(row: Row | undefined): LedgerEntry | undefined {
    if (row === undefined) return undefined;
    const known = this.#loaded.get(row.seq as number);
    if (known !== undefined) return known.entry;
    const entry = entryOf(row);
    this.#loaded.set(entry.seq, { entry, before: mutable(entry) });
    return entry;
  }

  #insert(entry: LedgerEntry): void {
    const { seq, key, owner, fence, era, batch, offered, message } = entry;
    const { id, body, maxAttempts, dedupeMs, attempt, error } = message ?? NO_MESSAGE;
    this.#sql.run(
      `INSERT INTO entry (${COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
      ...[seq, toColumn(key), owner, fence, era, batch, offered ? 1 : 0],
      ...[textOrNull(id), textOrNull(body), maxAttempts, dedupeMs, attempt, textOrNull(error)],
    );
  }

  #update(entry: LedgerEntry): void {
    const { seq, owner, fence, era, batch, offered, message } = entry;
    this.#sql.run(
      'UPDATE entry SET owner = ?, fence = ?, era = ?, batch = ?, offered = ?, attempt = ?, error = ? WHERE seq = ?',
      ...[owner, fence, era, batch, offered ? 1 : 0, message?.attempt ?? null, textOrNull(message?.error ?? null), seq],
    );
  }
}

const NO_MESSAGE = { id: null, body: null, maxAttempts: null, dedupeMs: null, attempt: null, error: null };

function entryOf(row: Row): LedgerEntry {
  return {
    key: fromColumn(row.key as string),
    seq: row.seq as number,
    owner: row.owner as number,
    fence: row.fence as number,
    era: row.era as number,
    batch: row.batch as number,
    offered: row.offered === 1,
    message: row.body === null ? null : messageOf(row),
  };
}

function messageOf(row: Row): LedgerMessage {
  return {
    id: fromTextOrNull(row.id),
    body: fromColumn(row.body as string),
    maxAttempts: row.max_attempts as number,
    dedupeMs: row.dedupe_ms as number,
    attempt: row.attempt as number,
    error: fromTextOrNull(row.error),
  };
}

/** All that a step may change of an entry. */
function mutable({ owner, fence, era, batch, offered, message }: LedgerEntry): string {
  return `${owner} ${fence} ${era} ${batch} ${offered} ${message?.attempt} ${message?.error}`;
}

/** The queues by key. A queue is the rows of its key, in the order of their seqs. */
export class Queues {
  readonly #entries: Entries;
  /** One object a queue: what one part of a step takes out of it, the other parts must see. */
  readonly #known = new Map<string, SqliteQueue>();

  constructor(entries: Entries) {
    this.#entries = entries;
  }

  get(key: string): LedgerQueue | undefined {
    let queue = this.#known.get(key);
    if (queue === undefined) {
      queue = new SqliteQueue(this.#entries, key);
      this.#known.set(key, queue);
    }
    return queue.at(0) === undefined ? undefined : queue;
  }

  has(key: string): boolean {
    return this.get(key) !== undefined;
  }

  set(_key: string, queue: LedgerQueue): this {
    const first = queue.at(0);
    if (first !== undefined) this.#entries.add(first);
    return this;
  }

  /** An empty queue has no rows. */
  delete(_key: string): boolean {
    return true;
  }
}

class SqliteQueue implements LedgerQueue {
  readonly #entries: Entries;
  readonly #key: string;
  /** Undefined when it has to be looked up. */
  #head: LedgerEntry | undefined;

  constructor(entries: Entries, key: string) {
    this.#entries = entries;
    this.#key = key;
  }

  at(index: number): LedgerEntry | undefined {
    if (index !== 0) throw new RangeError('Only the head of a queue is read.');
    this.#head ??= this.#entries.head(this.#key);
    return this.#head;
  }

  /** What the step takes out meanwhile, or puts at the tail, it may meet or not. */
  *[Symbol.iterator](): Generator<LedgerEntry, undefined> {
    let last = 0;
    for (;;) {
      const page = this.#entries.pageAfter(this.#key, last);
      const end = page.at(-1);
      if (end === undefined) return;
      yield* page;
      last = end.seq;
    }
  }

  push(...entries: LedgerEntry[]): number {
    for (const entry of entries) this.#entries.add(entry);
    return entries.length;
  }

  shift(): LedgerEntry | undefined {
    const head = this.at(0);
    if (head !== undefined) this.#entries.remove(head);
    this.#head = undefined;
    return head;
  }

  /** A row's place is its seq. */
  indexOf(entry: LedgerEntry): number {
    return this.#entries.get(entry.seq) === entry ? entry.seq : -1;
  }

  splice(at: number): LedgerEntry[] {
    const entry = this.#entries.get(at);
    if (entry === undefined) return [];
    this.#entries.remove(entry);
    if (this.#head === entry) this.#head = undefined;
    return [entry];
  }
}

/** A replica's entries: the rows that have its epoch. An entry's owner is written in the entry alone. */
export class Tickets {
  readonly #entries: Entries;
  readonly #epoch: number;

  constructor(entries: Entries, epoch: number) {
    this.#entries = entries;
    this.#epoch = epoch;
  }

  get(seq: number): LedgerEntry | undefined {
    const entry = this.#entries.get(seq);
    return entry?.owner === this.#epoch ? entry : undefined;
  }

  set(_seq: number, _entry: LedgerEntry): this {
    return this;
  }

  delete(_seq: number): boolean {
    return true;
  }

  values(): LedgerEntry[] {
    return this.#entries.ownedBy(this.#epoch);
  }

  get size(): number {
    return this.#entries.ownedBy(this.#epoch).length;
  }
}
