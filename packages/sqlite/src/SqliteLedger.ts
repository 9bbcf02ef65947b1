import type { Grant, Ledger, MeshConfig } from '@botmesh/core/spi';
import { Entries, Queues } from './entries.js';
import { Done, Orphans, Suspects, Taken } from './ids.js';
import { Paces } from './paces.js';
import { Parked } from './parked.js';
import { Replicas } from './replicas.js';
import type { Sql } from './sql.js';

/** How the table writes that no quarantine could be measured yet. */
const UNMEASURED = -1;

/**
 * The mesh's record in SQLite's tables, as one step sees it: parts are read when the step asks for them, and what it
 * changed is written by `flush`. Use it inside one immediate transaction, and make a new one for the next.
 */
export class SqliteLedger implements Ledger {
  config: MeshConfig | null;
  run: string | null;
  era: number;
  quarantineMs: number;
  last: number;
  readonly live: Replicas;
  readonly queues: Queues;
  readonly orphans: Orphans;
  readonly suspects: Suspects;
  readonly taken: Taken;
  readonly done: Done;
  readonly parked: Parked;
  readonly paces: Paces;
  readonly #sql: Sql;
  readonly #entries: Entries;
  readonly #before: string;

  /** `process` is who takes the step, in JSON: written beside a replica that joins in it. */
  constructor(sql: Sql, process: string) {
    const mesh = sql.get('SELECT config, run, era, quarantine_ms, last FROM mesh') ?? {};
    const { config, run, era, quarantine_ms, last } = mesh;
    this.config = typeof config === 'string' ? (JSON.parse(config) as MeshConfig) : null;
    this.run = run as string | null;
    this.era = era as number;
    this.quarantineMs = quarantine_ms === UNMEASURED ? Number.POSITIVE_INFINITY : (quarantine_ms as number);
    this.last = last as number;
    this.#sql = sql;
    this.#entries = new Entries(sql);
    this.queues = new Queues(this.#entries);
    this.live = new Replicas(sql, this.#entries, process);
    this.orphans = new Orphans(sql);
    this.suspects = new Suspects(sql);
    this.taken = new Taken(sql);
    this.done = new Done(sql);
    this.parked = new Parked(sql);
    this.paces = new Paces(sql);
    this.#before = this.#scalars();
  }

  /** The step is going to ask for these tickets, by their seqs alone. */
  expect(tickets: readonly { readonly key: string; readonly seq: number }[]): void {
    for (const { key, seq } of tickets) this.#entries.expect(key, seq);
  }

  /** By two statements, however many are listed. If it says no, all that the epoch has is read at once. */
  isAsListed(epoch: number, view: readonly Grant[]): boolean {
    if (this.#entries.areAsListed(epoch, this.era, view)) return true;
    this.#entries.ownedBy(epoch);
    return false;
  }

  /** Writes what the step changed. */
  flush(): void {
    this.#entries.flush();
    this.live.flush();
    if (this.#scalars() === this.#before) return;
    const { config, run, era, quarantineMs, last } = this;
    const quarantine = Number.isFinite(quarantineMs) ? quarantineMs : UNMEASURED;
    this.#sql.run(
      'UPDATE mesh SET config = ?, run = ?, era = ?, quarantine_ms = ?, last = ?',
      ...[config === null ? null : JSON.stringify(config), run, era, quarantine, last],
    );
  }

  #scalars(): string {
    const { config, run, era, quarantineMs, last } = this;
    return `${last} ${era} ${quarantineMs} ${run} ${config?.leaseMs} ${config?.shards} ${config?.format}`;
  }
}
