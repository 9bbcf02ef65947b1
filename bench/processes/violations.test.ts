import { expect, test } from 'vitest';
import { type Turn, TurnLog, unpacked } from './TurnLog.js';
import { overtakenOf, violationsOf } from './violations.js';

/** A turn of process `lane`, submitted there, that was called, placed, started and ended at these times. */
function turn(lane: number, number: number, [calledUs, placedUs, startedUs, endedUs]: number[], fence = 0): Turn {
  const times = { calledUs: calledUs!, placedUs: placedUs!, startedUs: startedUs!, endedUs: endedUs! };
  return { chat: 0, lane, from: lane, number, fence, ...times };
}

test('turns one after the other, in the order of their places, are nothing to complain of', () => {
  const turns = [turn(0, 1, [0, 1, 2, 5]), turn(1, 1, [1, 3, 6, 8]), turn(0, 2, [4, 5, 9, 10])];

  expect(violationsOf(turns, 3)).toEqual({ overlaps: 0, disorder: 0, losses: 0 });
});

test('two turns of a chat at one time are an overlap, whichever processes they run in', () => {
  const turns = [turn(0, 1, [0, 1, 2, 5]), turn(1, 1, [0, 2, 4, 6])];

  expect(violationsOf(turns, 2).overlaps).toBe(1);
});

test('a message that overtakes one whose place was sure before it was called is disorder', () => {
  const turns = [turn(0, 1, [0, 1, 20, 21]), turn(1, 1, [2, 3, 4, 5])];

  expect(violationsOf(turns, 2).disorder).toBe(1);
});

test('two messages called at the same time have no order to break', () => {
  const turns = [turn(0, 1, [0, 3, 20, 21]), turn(1, 1, [2, 4, 5, 6])];

  expect(violationsOf(turns, 2).disorder).toBe(0);
});

test('a fence that does not grow, and a message handled twice, are disorder; one not handled is a loss', () => {
  const sameFence = [turn(0, 1, [0, 1, 2, 3], 7), turn(0, 2, [1, 2, 4, 5], 7)];
  const twice = [turn(0, 1, [0, 1, 2, 3]), turn(0, 1, [0, 1, 4, 5])];

  expect(violationsOf(sameFence, 2)).toEqual({ overlaps: 0, disorder: 1, losses: 0 });
  expect(violationsOf(twice, 2)).toEqual({ overlaps: 0, disorder: 1, losses: 1 });
});

test('where places are not known, the later of two messages of one process may not start first', () => {
  const turns = [turn(0, 2, [0, 0, 4, 5]), turn(0, 1, [0, 0, 20, 21]), turn(1, 1, [0, 0, 30, 31])];

  expect(violationsOf(turns, 3)).toEqual({ overlaps: 0, disorder: 1, losses: 0 });
});

test('a message that starts after one that was called more than 20 ms later is overtaken, in whichever processes they run', () => {
  const turns = [turn(0, 1, [0, 0, 50_000, 50_001]), turn(1, 1, [25_000, 0, 30_000, 30_001])];
  const close = [turn(0, 1, [0, 0, 50_000, 50_001]), turn(1, 1, [15_000, 0, 30_000, 30_001])];

  expect([overtakenOf(turns), overtakenOf(close)]).toEqual([1, 0]);
});

test('a log of turns says in another process what was written into it', () => {
  const log = new TurnLog();
  const { lane: _, ...first } = turn(3, 1, [0.5, 1.5, 2.5, 3.5], 9);
  for (let count = 0; count < 5000; count++) log.add({ ...first, number: count });

  const turns = unpacked(log.packed(), 3);

  expect(turns).toHaveLength(5000);
  expect(turns[4999]).toEqual({ ...first, lane: 3, number: 4999 });
});
