import { expect, test } from 'vitest';
import { VirtualClock } from '../testing/VirtualClock.js';
import { Batches } from './batches.js';
import type { Op } from './store.js';

/** The sizes of the batches in which messages with bodies of these lengths go out. */
async function sizesOf(lengths: readonly number[]): Promise<number[]> {
  const sizes: number[] = [];
  const clock = new VirtualClock();
  await clock.run(async () => {
    const batches = new Batches({
      clock,
      attemptMs: 1000,
      canSend: () => true,
      send: async (_, ops) => {
        sizes.push(ops.length);
        const news = { grants: [], adopted: [], parked: [] };
        return { kind: 'applied', era: 1, results: ops.map(() => null), news };
      },
      onAnswer: () => {},
      onFailure: (error) => {
        throw error;
      },
    });
    for (const length of lengths) batches.push(pendingOf(length));
    await batches.idle();
    batches.reset();
  });
  return sizes;
}

function pendingOf(length: number) {
  const op: Op = { op: 'accept', key: 'chat', id: null, body: 'x'.repeat(length), maxAttempts: 5, dedupeMs: 1000 };
  return { op, sent: false, abandoned: false, settle: () => {}, reject: () => {} };
}

test('a batch has at most 256 operations', async () => {
  expect(await sizesOf(Array.from({ length: 600 }, () => 10))).toEqual([256, 256, 88]);
});

test('a batch ends before its texts exceed 256 Ki characters', async () => {
  const half = 128 * 1024;

  expect(await sizesOf([half, half, 1, half, half, half])).toEqual([2, 2, 2]);
});

test('a message that is larger than a batch may be goes alone', async () => {
  expect(await sizesOf([10, 1024 * 1024, 10, 10])).toEqual([1, 1, 2]);
});

test('calls that an answer sets off go out in one batch, though each comes some microtasks later', async () => {
  const sizes: number[] = [];
  const clock = new VirtualClock();
  await clock.run(async () => {
    const batches: Batches = new Batches({
      clock,
      attemptMs: 1000,
      canSend: () => true,
      send: async (_, ops) => {
        sizes.push(ops.length);
        return { kind: 'applied', era: 1, results: ops.map(() => null), news: { grants: [], adopted: [], parked: [] } };
      },
      onAnswer: (_, pending) => {
        if (sizes.length > 1) return;
        for (const [at] of pending.entries()) void callAfter(at % 4, batches);
      },
      onFailure: (error) => {
        throw error;
      },
    });
    for (let n = 0; n < 12; n++) batches.push(pendingOf(1));
    await batches.idle();
    for (let n = 0; n < 50; n++) await Promise.resolve();
    await batches.idle();
    batches.reset();
  });

  expect(sizes).toEqual([12, 12]);
});

async function callAfter(microtasks: number, batches: Batches): Promise<void> {
  for (let n = 0; n < microtasks; n++) await Promise.resolve();
  batches.push(pendingOf(1));
}
