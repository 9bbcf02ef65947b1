import type { ApplyAnswer, ApplyRequest } from '@botmesh/core/spi';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { Waiting } from './Waiting.js';

/** As Waiting has it. */
const EVERY_MS = 25;
const SEQ = 7;

let version = 0;
let told: number[] = [];
let looks = 0;
let waiting: Waiting;

beforeEach(() => {
  vi.useFakeTimers();
  [version, told, looks] = [0, [], 0];
  waiting = new Waiting({
    version: () => version,
    bury: async () => {},
    look: (_epoch, _era, isWaiting) => {
      looks += 1;
      if (version === 0 || !isWaiting(SEQ)) return;
      told.push(SEQ);
      waiting.granted(SEQ);
    },
  });
  const request: ApplyRequest = { epoch: 1, instance: 'i', batch: 1, ops: [{ op: 'reserve', key: 'k' }] };
  const news = { grants: [], adopted: [], parked: [] };
  const answer: ApplyAnswer = { kind: 'applied', era: 0, results: [{ seq: SEQ, fence: 0 }], news };
  waiting.begin(1, 0);
  waiting.afterApply(request, answer);
  vi.advanceTimersByTime(EVERY_MS);
});

afterEach(() => {
  waiting.end();
  vi.useRealTimers();
});

test('a grant whose push does not come is found in the file by the second look', () => {
  version = 1;
  vi.advanceTimersByTime(EVERY_MS);
  expect(told).toEqual([]);

  vi.advanceTimersByTime(EVERY_MS);
  expect(told).toEqual([SEQ]);
});

test('a grant whose push comes just after it was found is told of once', () => {
  version = 1;
  vi.advanceTimersByTime(EVERY_MS);
  waiting.granted(SEQ);
  vi.advanceTimersByTime(EVERY_MS * 10);

  expect(told).toEqual([]);
});

test('the file is looked at only when another process wrote, and not at all when nobody waits', () => {
  const before = looks;
  vi.advanceTimersByTime(EVERY_MS * 10);
  expect(looks).toBe(before);

  waiting.granted(SEQ);
  version = 1;
  vi.advanceTimersByTime(EVERY_MS * 10);
  expect(looks).toBe(before);
});
