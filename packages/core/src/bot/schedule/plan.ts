import { BadInputError } from '../../errors.js';
import type { Times } from './times.js';

/** The format of a stored record. */
const RECORD_VERSION = 1;

/** The last due time that was begun. Written under the term of the leader that began it. */
export interface DueRecord {
  readonly v: typeof RECORD_VERSION;
  /** The schedule's times, by their text. */
  readonly times: string;
  readonly dueMs: number;
  /** 1, or 2 after the first run ended with its replica. 0 for a beginning: nothing was due. */
  readonly attempt: number;
  /** Whether nothing is left to do for it. */
  readonly isOver: boolean;
}

/** What becomes of due times at which nobody could run the job. */
export type Missed = 'last' | 'skip' | 'all';

/** How late a due time may be and still count as kept: a new leader is elected within less. */
export const GRACE_MS = 60_000;
/** Of how many missed due times `all` keeps account: the newest. */
export const MOST_MISSED = 100;
/** How far ahead of this host's clock a record may be. A greater one was written by a clock that was wrong. */
export const MOST_AHEAD_MS = 3_600_000;

export type Step =
  | { readonly kind: 'begin'; readonly isAfterFault: boolean }
  | { readonly kind: 'run'; readonly dueMs: number; readonly attempt: number }
  | { readonly kind: 'give-up'; readonly dueMs: number }
  | { readonly kind: 'settle'; readonly dueMs: number }
  | { readonly kind: 'wait'; readonly untilMs: number | undefined };

/** What a leader does next. */
export function plan(record: DueRecord | undefined, times: Times, missed: Missed, nowMs: number): Step {
  if (record === undefined || record.times !== times.text) return { kind: 'begin', isAfterFault: false };
  const { dueMs, attempt, isOver } = record;
  if (dueMs > nowMs + MOST_AHEAD_MS) return { kind: 'begin', isAfterFault: true };
  if (!isOver) {
    if (attempt > 1) return { kind: 'give-up', dueMs };
    const isTooLate = missed === 'skip' && nowMs - dueMs > GRACE_MS;
    return isTooLate ? { kind: 'settle', dueMs } : { kind: 'run', dueMs, attempt: attempt + 1 };
  }
  const due = dueAfter(dueMs, times, missed, nowMs);
  if (due !== undefined) return { kind: 'run', dueMs: due, attempt: 1 };
  return { kind: 'wait', untilMs: times.next(Math.max(nowMs, dueMs)) };
}

function dueAfter(lastMs: number, times: Times, missed: Missed, nowMs: number): number | undefined {
  const latestMs = times.latest(nowMs);
  if (latestMs === undefined || latestMs <= lastMs) return undefined;
  if (missed === 'last') return latestMs;
  if (missed === 'skip') return nowMs - latestMs <= GRACE_MS ? latestMs : undefined;
  return oldestKept(lastMs, times, latestMs);
}

function oldestKept(lastMs: number, times: Times, latestMs: number): number {
  let oldestMs = latestMs;
  for (let count = 1; count < MOST_MISSED; count++) {
    const beforeMs = times.latest(oldestMs - 1);
    if (beforeMs === undefined || beforeMs <= lastMs) break;
    oldestMs = beforeMs;
  }
  return oldestMs;
}

export function record(times: Times, dueMs: number, attempt: number, isOver: boolean): DueRecord {
  return { v: RECORD_VERSION, times: times.text, dueMs, attempt, isOver };
}

/** @throws BadInputError for a format that this version does not know */
export function readRecord(value: unknown): DueRecord {
  const found = (typeof value === 'object' && value !== null ? value : {}) as Partial<DueRecord>;
  if (found.v === RECORD_VERSION && Number.isFinite(found.dueMs)) return found as DueRecord;
  throw new BadInputError(
    `stored schedule: format ${JSON.stringify(found.v) ?? 'none'}, this replica knows ${RECORD_VERSION}`,
  );
}
