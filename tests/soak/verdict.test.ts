import { expect, test } from 'vitest';
import type { Noted } from '../cluster/Diary.js';
import { judge } from './verdict.js';

const one = new Map([['k', 2]]);
const line = (event: string, id: string, more: Partial<Noted> = {}): Noted => ({
  replicaId: 'a',
  event,
  chat: 'k',
  id,
  ...more,
});
const run = (id: string, before: string): Noted[] => [
  line('begun', id),
  line('sent', id, { text: `${id} after ${before}` }),
  line('ended', id, { how: 'handled' }),
];

test('a run in which each message came once, after the one before it, has no fault', () => {
  expect(judge([...run('1', 'none'), ...run('2', '1')], one)).toEqual({
    received: 2,
    handled: 2,
    begunAgain: 0,
    doubled: 0,
    faults: [],
  });
});

test('a message that was begun again before its end is counted, and no fault', () => {
  const verdict = judge([line('begun', '1'), ...run('1', 'none'), ...run('2', '1')], one);

  expect(verdict).toMatchObject({ begunAgain: 1, doubled: 0, faults: [] });
});

test('a reply that left before its process died is counted as doubled', () => {
  const [begun, sent] = run('1', 'none') as [Noted, Noted];

  expect(judge([begun, sent, ...run('1', 'none'), ...run('2', '1')], one)).toMatchObject({ doubled: 1, faults: [] });
});

test('what a frozen process notes on waking, and what is cut off at once, is no fault', () => {
  const late = [line('begun', '1', { replicaId: 'b' }), line('aborted', '1', { replicaId: 'b' })];

  expect(judge([...run('1', 'none'), ...run('2', '1'), ...late], one)).toMatchObject({ begunAgain: 1, faults: [] });
});

test.each<[string, Noted[], RegExp]>([
  ['a message that is lost', run('1', 'none'), /message 2 was taken in and never answered/],
  [
    'a message that is handled after its end',
    [...run('1', 'none'), ...run('1', 'none'), ...run('2', '1')],
    /again after/,
  ],
  [
    'a reply of a replica that is told too late that the turn is gone',
    [
      ...run('1', 'none'),
      ...run('2', '1'),
      ...run('1', 'none').map((each) => ({ ...each, replicaId: 'b' })),
      line('aborted', '1', { replicaId: 'b' }),
    ],
    /again after/,
  ],
  ['messages out of order', [...run('2', 'none'), ...run('1', '2')], /began message 1 after message 2/],
  ['a change of state that is lost', [...run('1', 'none'), ...run('2', 'none')], /handled after none, not 1/],
  [
    'a message that is parked',
    [...run('1', 'none'), ...run('2', '1'), line('ended', '2', { how: 'parked' })],
    /parked/,
  ],
])('%s is a fault', (_what, lines, fault) => {
  expect(judge(lines, one).faults.join('\n')).toMatch(fault);
});
