import type { Grant, LedgerEntry, LedgerMessage, LedgerQueue } from '@botmesh/core/spi';
import type { Row } from './driver.js';
import { LongTexts } from './long.js';
import type { Sql } from './sql.js';
import { fromColumn, fromTextOrNull, textOrNull, toColumn } from './text.js';

const COLUMNS =
  'key, seq, owner, fence, era, batch, offered, id, body, max_attempts, dedupe_ms, attempt, error, suspect';

/** A row with a longer body would not fit into a page with others. */
const LONGEST_IN_ROW = 200;

/** So many entries of a queue are read at a time. */
const PAGE = 64;
/** A release takes the first of a queue and grants the next: both are read at once. */
const FRONT = 2;

const READ_FRONT = `SELECT ${COLUMNS} FROM entry WHERE key = ? ORDER BY seq LIMIT ${FRONT}`;
const READ_PAGE = `SELECT ${COLUMNS} FROM entry WHERE key = ? AND seq > ? ORDER BY seq LIMIT ${PAGE}`;
const READ_ONE = `SELECT ${COLUMNS} FROM entry WHERE owner = ? AND seq = ?`;
/** Whether one stands first is asked of those that hold their key. */
const READ_OWNED = `SELECT ${COLUMNS}, fence <> 0 AND NOT EXISTS (
  SELECT 1 FROM entry AS other WHERE other.key = entry.key AND other.seq < entry.seq
) AS is_head FROM entry WHERE owner = ? ORDER BY seq`;

/** A holder stands first, so only of those that wait it is asked whether somebody stands before them. */
const READ_SETTLED = `SELECT json_group_array(seq) AS seqs, json_group_array(fence) AS fences FROM entry
WHERE owner = ? AND offered = 0 AND (fence <> 0 AND era = ? OR fence = 0 AND EXISTS (
  SELECT 1 FROM entry AS other WHERE other.key = entry.key AND other.seq < entry.seq
))`;

/** All that a step may change of an entry. */
interface Mutable {
  readonly owner: number;
  readonly fence: number;
  readonly era: number;
  readonly batch: number;
  readonly offered: boolean;
  readonly attempt: number | undefined;
  readonly error: string | null | undefined;
  readonly suspect: boolean | undefined;
}

interface Loaded {
  readonly entry: LedgerEntry;
  /** What the table has of it; undefined for one that is not in the table yet. */
  readonly before: Mutable | undefined;
  /** Its body is in a table of its own. */
  readonly isBodyApart: boolean;
}

/** The first entries of a key that the table has, in order. Those removed since are among them. */
interface Front {
  readonly entries: readonly LedgerEntry[];
  /** There are no more in the table. */
  readonly isWhole: boolean;
}

/** The entries a step touches: each is one object, however often it is asked for, and is written once, at the end. */
export class Entries {
  readonly #sql: Sql;
  readonly #long: LongTexts;
  readonly #loaded = new Map<number, Loaded>();
  readonly #fronts = new Map<string, Front>();
  /** By key, in order, those that this step adds: they come after all that were there. */
  readonly #added = new Map<string, LedgerEntry[]>();
  /** The keys of what the step will ask for by seq. */
  readonly #expected = new Map<number, string>();
  /** The epochs whose entries are all loaded. */
  readonly #whole = new Set<number>();

  constructor(sql: Sql) {
    this.#sql = sql;
    this.#long = new LongTexts(sql);
  }

  /** The step is going to ask for this one. */
  expect(key: string, seq: number): void {
    this.#expected.set(seq, key);
  }

  /** The entry, if it is loaded and was not removed. */
  at(seq: number): LedgerEntry | undefined {
    return this.#loaded.get(seq)?.entry;
  }

  /** The entry, if it is this epoch's. */
  get(seq: number, epoch: number): LedgerEntry | undefined {
    if (!this.#loaded.has(seq) && !this.#whole.has(epoch)) this.#find(seq, epoch);
    const found = this.at(seq);
    return found?.owner === epoch ? found : undefined;
  }

  /** The first of a key. */
  head(key: string): LedgerEntry | undefined {
    let front = this.#fronts.get(key) ?? this.#readFront(key);
    let head = this.#firstOf(front.entries);
    while (head === undefined && !front.isWhole) {
      front = this.#readFront(key);
      head = this.#firstOf(front.entries);
    }
    return head ?? this.#firstOf(this.#added.get(key) ?? []);
  }

  /** Up to a page of a key's entries behind `seq`, those in the table first, which are older. */
  pageAfter(key: string, seq: number): LedgerEntry[] {
    const page = this.#sql.all(READ_PAGE, toColumn(key), seq).map((row) => this.#keep(row));
    if (page.length === PAGE) return page;
    const added = this.#added.get(key) ?? [];
    return page.concat(added.filter((entry) => entry.seq > seq && this.at(entry.seq) === entry));
  }

  /** Whether the table has just these tickets of an epoch, each held in this era or waiting as listed. */
  areAsListed(epoch: number, era: number, view: readonly Grant[]): boolean {
    // What this step has changed the table does not know yet.
    if (this.#loaded.size > 0) return false;
    const { count } = this.#sql.get('SELECT count(*) AS count FROM entry WHERE owner = ?', epoch) ?? {};
    if (count !== view.length) return false;
    if (count === 0) return true;
    const { seqs, fences } = this.#sql.get(READ_SETTLED, epoch, era) ?? {};
    const fencesBySeq = new Map(view.map(({ seq, fence }) => [seq, fence]));
    const held = JSON.parse(fences as string) as number[];
    const found = JSON.parse(seqs as string) as number[];
    return found.length === count && found.every((seq, index) => fencesBySeq.get(seq) === held[index]);
  }

  /** All of an epoch, in the order of their places. */
  ownedBy(epoch: number): LedgerEntry[] {
    if (!this.#whole.has(epoch)) this.#readOwned(epoch);
    const owned: LedgerEntry[] = [];
    for (const { entry } of this.#loaded.values()) if (entry.owner === epoch) owned.push(entry);
    return owned.sort((a, b) => a.seq - b.seq);
  }

  add(entry: LedgerEntry): void {
    this.#loaded.set(entry.seq, { entry, before: undefined, isBodyApart: false });
    const added = this.#added.get(entry.key);
    if (added === undefined) this.#added.set(entry.key, [entry]);
    else added.push(entry);
  }

  remove(entry: LedgerEntry): void {
    const known = this.#loaded.get(entry.seq);
    if (known === undefined) return;
    this.#loaded.delete(entry.seq);
    this.#expected.delete(entry.seq);
    if (known.before === undefined) return;
    this.#sql.run('DELETE FROM entry WHERE key = ? AND seq = ?', toColumn(entry.key), entry.seq);
    if (known.isBodyApart) this.#long.delete(entry.seq);
  }

  flush(): void {
    for (const { entry, before } of this.#loaded.values()) {
      if (before === undefined) this.#insert(entry);
      else if (isChanged(entry, before)) this.#update(entry);
    }
  }

  #firstOf(entries: readonly LedgerEntry[]): LedgerEntry | undefined {
    return entries.find((entry) => this.at(entry.seq) === entry);
  }

  #find(seq: number, epoch: number): void {
    const key = this.#expected.get(seq);
    // As a rule what is released stands first, and then the step asks for the first ones too.
    if (key !== undefined && !this.#fronts.has(key)) this.#readFront(key);
    if (this.#loaded.has(seq)) return;
    const row = this.#sql.get(READ_ONE, epoch, seq);
    if (row !== undefined) this.#keep(row);
  }

  #readFront(key: string): Front {
    const rows = this.#sql.all(READ_FRONT, toColumn(key));
    const front = { entries: rows.map((row) => this.#keep(row)), isWhole: rows.length < FRONT };
    this.#fronts.set(key, front);
    return front;
  }

  #readOwned(epoch: number): void {
    for (const row of this.#sql.all(READ_OWNED, epoch)) {
      const entry = this.#keep(row);
      if (row.is_head === 1 && !this.#fronts.has(entry.key)) {
        this.#fronts.set(entry.key, { entries: [entry], isWhole: false });
      }
    }
    this.#whole.add(epoch);
  }

  #keep(row: Row): LedgerEntry {
    const known = this.at(row.seq as number);
    if (known !== undefined) return known;
    const entry = entryOf(row, this.#long);
    const isBodyApart = entry.message !== null && row.body === null;
    this.#loaded.set(entry.seq, { entry, before: mutable(entry), isBodyApart });
    return entry;
  }

  #insert(entry: LedgerEntry): void {
    const { seq, key, owner, fence, era, batch, offered, message } = entry;
    const { id, body, maxAttempts, dedupeMs, attempt, error, suspect } = message ?? NO_MESSAGE;
    const isBodyApart = body !== null && body.length > LONGEST_IN_ROW;
    if (isBodyApart) this.#long.set(seq, body);
    this.#sql.run(
      `INSERT INTO entry (${COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
      ...[toColumn(key), seq, owner, fence, era, batch, offered ? 1 : 0],
      ...[textOrNull(id), textOrNull(isBodyApart ? null : body), maxAttempts, dedupeMs, attempt, textOrNull(error)],
      suspect ? 1 : 0,
    );
  }

  #update(entry: LedgerEntry): void {
    const { key, seq, owner, fence, era, batch, offered, message } = entry;
    this.#sql.run(
      'UPDATE entry SET owner = ?, fence = ?, era = ?, batch = ?, offered = ?, attempt = ?, error = ?, suspect = ? WHERE key = ? AND seq = ?',
      ...[owner, fence, era, batch, offered ? 1 : 0, message?.attempt ?? null, textOrNull(message?.error ?? null)],
      ...[message?.suspect ? 1 : 0, toColumn(key), seq],
    );
  }
}

const NO_MESSAGE = {
  id: null,
  body: null,
  maxAttempts: null,
  dedupeMs: null,
  attempt: null,
  error: null,
  suspect: false,
};

function entryOf(row: Row, long: LongTexts): LedgerEntry {
  return {
    key: fromColumn(row.key as string),
    seq: row.seq as number,
    owner: row.owner as number,
    fence: row.fence as number,
    era: row.era as number,
    batch: row.batch as number,
    offered: row.offered === 1,
    message: row.attempt === null ? null : new SqliteMessage(row, long),
  };
}

class SqliteMessage implements LedgerMessage {
  readonly id: string | null;
  readonly maxAttempts: number;
  readonly dedupeMs: number;
  attempt: number;
  error: string | null;
  suspect: boolean;
  readonly #seq: number;
  /** Null when it is kept apart. */
  readonly #body: string | null;
  readonly #long: LongTexts;

  constructor(row: Row, long: LongTexts) {
    this.id = fromTextOrNull(row.id);
    this.maxAttempts = row.max_attempts as number;
    this.dedupeMs = row.dedupe_ms as number;
    this.attempt = row.attempt as number;
    this.error = fromTextOrNull(row.error);
    this.suspect = row.suspect === 1;
    this.#seq = row.seq as number;
    this.#body = row.body as string | null;
    this.#long = long;
  }

  /** A long one is read when it is asked for: few steps hand a message out. */
  get body(): string {
    return this.#body === null ? this.#long.get(this.#seq) : fromColumn(this.#body);
  }
}

function mutable({ owner, fence, era, batch, offered, message }: LedgerEntry): Mutable {
  return {
    owner,
    fence,
    era,
    batch,
    offered,
    attempt: message?.attempt,
    error: message?.error,
    suspect: message?.suspect,
  };
}

function isChanged({ owner, fence, era, batch, offered, message }: LedgerEntry, before: Mutable): boolean {
  return (
    fence !== before.fence ||
    owner !== before.owner ||
    era !== before.era ||
    batch !== before.batch ||
    offered !== before.offered ||
    message?.attempt !== before.attempt ||
    message?.error !== before.error ||
    message?.suspect !== before.suspect
  );
}

/** The queues by key. A queue is the entries of its key, in the order of their seqs. */
export class Queues {
  readonly #entries: Entries;

  constructor(entries: Entries) {
    this.#entries = entries;
  }

  get(key: string): LedgerQueue | undefined {
    return this.has(key) ? new SqliteQueue(this.#entries, key) : undefined;
  }

  has(key: string): boolean {
    return this.#entries.head(key) !== undefined;
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

  constructor(entries: Entries, key: string) {
    this.#entries = entries;
    this.#key = key;
  }

  at(index: number): LedgerEntry | undefined {
    if (index !== 0) throw new RangeError('Only the head of a queue is read.');
    return this.#entries.head(this.#key);
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
    return head;
  }

  /** Its seq is its place. */
  indexOf(entry: LedgerEntry): number {
    return this.#entries.at(entry.seq) === entry ? entry.seq : -1;
  }

  splice(at: number): LedgerEntry[] {
    const entry = this.#entries.at(at);
    if (entry === undefined) return [];
    this.#entries.remove(entry);
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
    return this.#entries.get(seq, this.#epoch);
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
