/** One step under way, and what may be decided in it: the stamps, the era, who may act, who may bear witness. */
import type { Adoption, Grant, MeshConfig, ParkedNotice } from '../store.js';
import { timing } from '../timing.js';
import type { Entry, Ledger, Moment, Outgoing, Row } from './record.js';

/** One step under way: the record, the moment, who runs it, and what it causes. */
export interface Step {
  readonly record: Ledger;
  readonly nowMs: number;
  readonly wallMs: number;
  me: Row | null;
  readonly batch: number;
  /** The last stamp given before this step: greater fences were given in it. */
  readonly stampBefore: number;
  /** The entry being enqueued: its grant is its result, not news. */
  fresh: Entry | null;
  /** The entry being passed on: not to its former owner. */
  passing: Entry | null;
  readonly grants: Grant[];
  readonly adopted: Adoption[];
  readonly parked: ParkedNotice[];
  readonly pushes: Outgoing[];
}

/**
 * What a clock may say in stamps, which is microseconds: up to the year 2112. A stamp has to stay a safe integer with room to
 * count on for ever, so a clock beyond that counts for nothing.
 */
const LATEST_CLOCK = 2 ** 52;

/** No stamp that was ever given is greater. Half of the rest is left to count on in. */
const LATEST_SEEN = LATEST_CLOCK + 2 ** 51;

export function begin(record: Ledger, moment: Moment, pushes: Outgoing[], batch = 0): Step {
  const step: Step = {
    record,
    nowMs: moment.nowMs,
    wallMs: wallOf(record, moment),
    me: null,
    batch,
    stampBefore: record.last,
    fresh: null,
    passing: null,
    grants: [],
    adopted: [],
    parked: [],
    pushes,
  };
  noticeServerChange(step, moment.run);
  return step;
}

/** What the clock of stamps says; for one that cannot be right, the latest time that the record knows of. */
export function wallOf(record: Ledger, moment: Moment): number {
  const wallMs = moment.wallMs ?? moment.nowMs;
  return isClockSane(wallMs) ? wallMs : record.last / 1000;
}

/** Whether stamps may be made of what a clock says. */
export function isClockSane(wallMs: number): boolean {
  return Math.abs(wallMs) * 1000 <= LATEST_CLOCK;
}

/** R9: a server that may have lost writes starts a new era, in which nothing is granted for a while. */
export function noticeServerChange(step: Step, run: string): void {
  const { record } = step;
  if (record.run === run) return;
  record.run = run;
  startEra(step, record.config?.leaseMs ?? 0);
}

export function startEra(step: Step, leaseMs: number): void {
  const { record } = step;
  record.era = eraOf(record.run ?? '', stamp(step));
  record.quarantineMs = leaseMs === 0 ? Number.POSITIVE_INFINITY : timing(leaseMs).quarantineMs;
  // While the clock stands behind the last stamp, stamps that were lost would come again: one ticket's number for another.
  // A tenth of the quarantine in microseconds leaps over them, and is soon caught up with.
  if (leaseMs !== 0) record.last += Math.floor(record.quarantineMs * 100);
  // A witness's unbroken row of heartbeats ends here: its stamps may be from before the change.
  for (const row of record.live.values()) row.since = step.nowMs;
}

/**
 * A number for one life of the store's data. It hangs on the server's identity: a stamp alone comes again when the clock
 * stands behind a copy that is put back twice, and a replica would vouch for the second era by what it saw of the first.
 * 53 bits of a hash (cyrb53).
 */
function eraOf(run: string, at: number): number {
  const text = `${run} ${at}`;
  let high = 0xdeadbeef;
  let low = 0x41c6ce57;
  for (let index = 0; index < text.length; index += 1) {
    const code = text.charCodeAt(index);
    high = Math.imul(high ^ code, 2654435761);
    low = Math.imul(low ^ code, 1597334677);
  }
  high = Math.imul(high ^ (high >>> 16), 2246822507) ^ Math.imul(low ^ (low >>> 13), 3266489909);
  low = Math.imul(low ^ (low >>> 16), 2246822507) ^ Math.imul(high ^ (high >>> 13), 3266489909);
  return 4294967296 * (2097151 & low) + (high >>> 0) || 1;
}

/** R8: stamps rise also when the counter was lost, because the clock went on. */
export function stamp(step: Step): number {
  const { record } = step;
  record.last = Math.max(record.last + 1, Math.floor(step.wallMs * 1000));
  return record.last;
}

export function noteSeen(record: Ledger, seen: number): void {
  if (seen > LATEST_SEEN) return;
  if (seen > record.last) record.last = seen;
}

/** The caller's row if it may act; otherwise why not (R3). */
export function admit(step: Step, epoch: number, instance: string): Row | 'dead' | 'replaced' {
  const row = step.record.live.get(epoch);
  if (row === undefined || row.instance !== instance) return 'dead';
  if (row.replaced) return 'replaced';
  step.me = row;
  return row;
}

/** R2: only a replica whose own heartbeats are unbroken for a whole lease may declare a death. */
export function isWitness(step: Step, row: Row): boolean {
  const { leaseMs, gapMs } = timing(configOf(step).leaseMs);
  const gap = step.nowMs - row.beat;
  return gap >= 0 && gap <= gapMs && step.nowMs - row.since >= leaseMs;
}

export function isOver(step: Step, row: Row): boolean {
  return step.me !== null && step.nowMs - row.beat > configOf(step).leaseMs && isWitness(step, step.me);
}

export function configOf(step: Step): MeshConfig {
  if (step.record.config === null) throw new Error('A step before any join.');
  return step.record.config;
}
