import { expect, test } from 'vitest';
import { checkHistory, type HistoryEvent, type HistoryOptions } from './history.js';

type Event = HistoryEvent;
let calls = 0;
const reserved = (replica: string, seq: number, calledAt: number, at: number, key = 'k'): Event => ({
  kind: 'reserved',
  replica,
  key,
  seq,
  calledAt,
  at,
  call: ++calls,
});
const accepted = (replica: string, seq: number, at: number, id?: string): Event => ({
  kind: 'accepted',
  replica,
  key: 'k',
  seq,
  calledAt: at - 1,
  at,
  call: ++calls,
  ...(id === undefined ? {} : { id }),
});
const granted = (replica: string, seq: number, fence: number, at: number, attempt = 1): Event => ({
  kind: 'granted',
  replica,
  key: 'k',
  seq,
  fence,
  at,
  attempt,
});
const held = (replica: string, fence: number, at: number): Event => ({ kind: 'held', replica, key: 'k', fence, at });
const ended = (replica: string, fence: number, at: number): Event => ({
  kind: 'ended',
  replica,
  key: 'k',
  fence,
  at,
  why: 'released',
});
const written = (replica: string, fence: number, at: number, isAccepted = true): Event => ({
  kind: 'written',
  replica,
  key: 'k',
  fence,
  at,
  accepted: isAccepted,
});
const over = (kind: 'handled' | 'withdrawn' | 'parked', seq: number, at: number): Event => ({
  kind,
  replica: 'a',
  key: 'k',
  seq,
  at,
});
const dataLost = (at: number, keptTo: number, lostTo: number): Event => ({ kind: 'data-lost', at, keptTo, lostTo });

function rulesBroken(events: Event[], options?: HistoryOptions): string[] {
  return checkHistory(events, options).map((violation) => violation.rule);
}

test('a history in order breaks nothing', () => {
  const events = [
    reserved('a', 1, 0, 1),
    accepted('b', 2, 3, 'm'),
    granted('a', 1, 10, 1),
    held('a', 10, 4),
    written('a', 10, 4),
    ended('a', 10, 5),
    granted('b', 2, 11, 6),
    written('a', 10, 7, false),
    ended('b', 11, 8),
    over('handled', 2, 8),
  ];

  expect(checkHistory(events, { finished: true })).toEqual([]);
});

test('a place asked for after another was answered may not stand before it', () => {
  const events = [reserved('a', 5, 0, 1), reserved('b', 4, 2, 3)];

  const found = checkHistory(events);

  expect(found.map((violation) => violation.rule)).toEqual(['call-order']);
  expect(found[0]).toMatchObject({ key: 'k', at: 3 });
  expect(found[0]?.text).toContain('seq 5');
  expect(found[0]?.text).toContain('seq 4');
});

test('places asked for at the same time may come either way', () => {
  expect(rulesBroken([reserved('a', 5, 0, 3), reserved('b', 4, 2, 4)])).toEqual([]);
});

test('places of one replica keep the order of its calls also when they overlap', () => {
  expect(rulesBroken([reserved('a', 5, 0, 9), reserved('a', 4, 0, 9)])).toEqual(['call-order']);
});

test('keys are judged apart', () => {
  expect(rulesBroken([reserved('a', 5, 0, 1, 'x'), reserved('b', 4, 2, 3, 'y')])).toEqual([]);
});

test('a later place may not be granted first', () => {
  expect(rulesBroken([granted('a', 2, 10, 1), granted('b', 1, 11, 2)])).toEqual(['turn-order']);
});

test('an adopted message may not come after a later one', () => {
  expect(rulesBroken([granted('a', 2, 10, 1), granted('b', 1, 11, 2, 2)])).toEqual(['adoption']);
});

test('what a rollback brought back may come again', () => {
  expect(rulesBroken([granted('a', 2, 10, 1), dataLost(1, 1, 10), granted('b', 1, 11, 2)])).toEqual([]);
});

test('one key is never believed in by two', () => {
  const events = [granted('a', 1, 10, 1), granted('b', 2, 11, 3), held('a', 10, 4)];

  expect(rulesBroken(events)).toEqual(['exclusion']);
});

test('two grants of one fence to two replicas overlap', () => {
  expect(rulesBroken([granted('a', 1, 10, 1), granted('b', 1, 10, 3), held('a', 10, 4)])).toEqual([
    'fence',
    'exclusion',
  ]);
});

test('a fence may not fall, nor come twice', () => {
  expect(rulesBroken([granted('a', 1, 10, 1), granted('b', 1, 9, 3)])).toEqual(['fence']);
  expect(rulesBroken([granted('a', 1, 10, 1), granted('a', 1, 10, 3)])).toEqual(['fence']);
});

test('what ended is not held again', () => {
  expect(rulesBroken([granted('a', 1, 10, 1), ended('a', 10, 2), held('a', 10, 3)])).toEqual(['lapsed']);
});

test('a write under an older fence is not accepted after one under a newer', () => {
  const grants = [granted('a', 1, 10, 1), granted('b', 2, 11, 3)];

  expect(rulesBroken([...grants, written('b', 11, 4), written('a', 10, 5)])).toEqual(['stale-write']);
  expect(rulesBroken([...grants, written('b', 11, 4), written('a', 10, 5, false)])).toEqual([]);
});

test('a write under a fence that nobody was given is not accepted', () => {
  expect(rulesBroken([written('a', 10, 5)])).toEqual(['stale-write']);
});

test('an id is not taken in twice while it is known', () => {
  const twice = [accepted('a', 1, 1, 'm'), accepted('b', 2, 9, 'm')];

  expect(rulesBroken(twice)).toEqual(['dedupe']);
  expect(rulesBroken([...twice, over('withdrawn', 1, 2)])).toEqual([]);
  expect(rulesBroken([...twice, over('handled', 1, 2)])).toEqual(['dedupe']);
  expect(rulesBroken([...twice, over('handled', 1, 2)], { dedupeMs: 5 })).toEqual([]);
  expect(rulesBroken([...twice, dataLost(5, 0, 1)])).toEqual([]);
});

test('an accepted message that nobody handled is lost, unless the store lost it', () => {
  const message = [accepted('a', 4, 1, 'm')];

  expect(rulesBroken(message)).toEqual([]);
  expect(rulesBroken(message, { finished: true })).toEqual(['message-lost']);
  expect(rulesBroken([...message, over('parked', 4, 2)], { finished: true })).toEqual([]);
  expect(rulesBroken([...message, dataLost(2, 3, 4)], { finished: true })).toEqual([]);
  expect(rulesBroken([...message, dataLost(2, 4, 5)], { finished: true })).toEqual(['message-lost']);
});

test('a ticket that neither ran nor was refused is found at the end', () => {
  expect(rulesBroken([reserved('a', 1, 0, 1)], { finished: true })).toEqual(['ticket-without-end']);
  const endless = [reserved('a', 1, 0, 1), granted('a', 1, 10, 2)];
  expect(rulesBroken(endless, { finished: true })).toEqual(['ticket-without-end']);
});

test('of the tickets of a process that is gone nobody tells', () => {
  const events: Event[] = [reserved('a', 1, 0, 1), { kind: 'gone', at: 2, replica: 'a' }];

  expect(rulesBroken(events, { finished: true })).toEqual([]);
});

test('places on the two sides of a loss of data stand in no order', () => {
  expect(rulesBroken([reserved('a', 5, 0, 1), dataLost(2, 0, 5), reserved('b', 4, 3, 4)])).toEqual([]);
  expect(rulesBroken([dataLost(0, 0, 2), reserved('a', 5, 1, 2), reserved('b', 4, 3, 4)])).toEqual(['call-order']);
});

test('two hundred thousand events are judged within seconds', () => {
  const events: Event[] = [];
  for (let n = 1; n <= 50_000; n++) {
    events.push(reserved('a', n, n * 4, n * 4 + 1), granted('a', n, n, n * 4 + 1));
    events.push(held('a', n, n * 4 + 2), ended('a', n, n * 4 + 3));
  }

  const before = performance.now();
  const found = checkHistory(events, { finished: true });

  expect(found).toEqual([]);
  expect(performance.now() - before).toBeLessThan(5000);
});
