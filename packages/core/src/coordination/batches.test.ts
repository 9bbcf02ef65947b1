import { expect, test } from 'vitest';
import { CoordinationUnavailableError } from '../errors.js';
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
      isTrusted: () => true,
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
  return { op, sent: false, abandoned: false, isUnsure: false, settle: () => {}, reject: () => {} };
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
      isTrusted: () => true,
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

/** Batches to a store that has no room at first; `lose` has the answer to the first attempt lost. */
async function withoutRoom(lose: boolean): Promise<string[]> {
  const sent: string[] = [];
  const clock = new VirtualClock();
  await clock.run(async () => {
    let isFull = true;
    const batches = new Batches({
      clock,
      attemptMs: 1000,
      canSend: () => true,
      isTrusted: () => true,
      send: async (batch, ops) => {
        const names = ops.map((op) => `${op.op} ${op.key}`).join(', ');
        if (sent.push(`${batch}: ${names}`) === 1 && lose) throw new Error('no answer');
        if (isFull && ops.some(({ op }) => op === 'accept')) {
          throw new CoordinationUnavailableError('unavailable', 'full', { hasNoRoom: true });
        }
        return { kind: 'applied', era: 1, results: ops.map(() => null), news: { grants: [], adopted: [], parked: [] } };
      },
      onAnswer: () => {},
      onFailure: () => {},
    });
    batches.push(pendingOf(1));
    batches.push({ ...pendingOf(1), op: { op: 'release', key: 'a', seq: 1, how: 'done' } });
    await clock.sleep(100);
    batches.push({ ...pendingOf(1), op: { op: 'release', key: 'b', seq: 2, how: 'done' } });
    await clock.sleep(100);
    isFull = false;
    await batches.idle();
    batches.reset();
  });
  return sent;
}

test('where there is no room, releases overtake what needs some, under the number of the batch that was refused', async () => {
  const sent = await withoutRoom(false);

  expect(sent).toEqual(['1: accept chat, release a', '1: release a', '2: release b', '3: accept chat']);
});

test('a batch whose answer was lost is the next one that is sent, also where there is no room', async () => {
  const sent = await withoutRoom(true);

  const first = '1: accept chat, release a';
  expect(sent).toEqual([first, first, '2: release b']);
});
