import { describe, expect, test } from 'vitest';
import { GRACE_MS, MOST_AHEAD_MS, MOST_MISSED, plan, readRecord, record } from './plan.js';
import { everyTimes } from './times.js';

const MINUTE_MS = 60_000;
const times = everyTimes(MINUTE_MS);
const at = (minutes: number): number => minutes * MINUTE_MS;

describe('what a leader does next', () => {
  test('without a record, or with one of other times, it begins', () => {
    expect(plan(undefined, times, 'last', at(5))).toEqual({ kind: 'begin', isAfterFault: false });
    expect(plan(record(everyTimes(500), at(4), 1, true), times, 'last', at(5))).toEqual({
      kind: 'begin',
      isAfterFault: false,
    });
  });

  test('it waits for the next due time', () => {
    expect(plan(record(times, at(5), 1, true), times, 'last', at(5) + 1)).toEqual({ kind: 'wait', untilMs: at(6) });
  });

  test('at a due time it runs, and one that was begun and not ended is run once more, and then given up', () => {
    expect(plan(record(times, at(5), 1, true), times, 'last', at(6))).toEqual({
      kind: 'run',
      dueMs: at(6),
      attempt: 1,
    });
    expect(plan(record(times, at(6), 1, false), times, 'last', at(6))).toEqual({
      kind: 'run',
      dueMs: at(6),
      attempt: 2,
    });
    expect(plan(record(times, at(6), 2, false), times, 'last', at(6))).toEqual({ kind: 'give-up', dueMs: at(6) });
  });

  test('a clock that was set back repeats nothing', () => {
    expect(plan(record(times, at(60), 1, true), times, 'last', at(50))).toEqual({ kind: 'wait', untilMs: at(61) });
  });

  test('a record of a clock that was far ahead holds nothing up', () => {
    const ahead = record(times, at(5) + MOST_AHEAD_MS + 1, 1, true);

    expect(plan(ahead, times, 'last', at(5))).toEqual({ kind: 'begin', isAfterFault: true });
  });

  test('of missed due times `last` runs the newest, however late', () => {
    expect(plan(record(times, at(5), 1, true), times, 'last', at(900) + 59_000)).toMatchObject({ dueMs: at(900) });
  });

  test('`skip` runs none that is too late, and not one that hangs on a change of leaders', () => {
    const hourly = everyTimes(60 * MINUTE_MS);
    const last = record(hourly, at(60), 1, true);

    expect(plan(last, hourly, 'skip', at(120) + GRACE_MS)).toMatchObject({ kind: 'run', dueMs: at(120) });
    expect(plan(last, hourly, 'skip', at(120) + GRACE_MS + 1)).toEqual({ kind: 'wait', untilMs: at(180) });
    expect(plan(record(hourly, at(60), 1, false), hourly, 'skip', at(62))).toEqual({ kind: 'settle', dueMs: at(60) });
  });

  test('`all` runs each in order, from the oldest of the newest hundred on', () => {
    expect(plan(record(times, at(5), 1, true), times, 'all', at(9))).toMatchObject({ dueMs: at(6) });
    expect(plan(record(times, at(5), 1, true), times, 'all', at(1_000))).toMatchObject({
      dueMs: at(1_000 - MOST_MISSED + 1),
    });
  });
});

test('a record of another format is refused by name', () => {
  expect(() => readRecord({ v: 7, dueMs: 1 })).toThrow(/format 7, this replica knows 1/);
  expect(() => readRecord(null)).toThrow(/format none/);
});
