import { expect, test } from 'vitest';
import { CoordinationUnavailableError } from '../errors.js';
import { VirtualClock } from '../testing/VirtualClock.js';
import { Batches, type Pending } from './batches.js';
import type { Op } from './store.js';

/** The sizes of the batches in which messages with bodies of these lengths go out. */
async function sizesOf(lengths: readonly number[]): Promise<number[]> {
  const sizes: number[] = [];
  const clock = new VirtualClock();
  await clock.run(async () => {
    const batches = new Batches({
      clock,
      attemptMs: 1000,
      patienceMs: 12_000,
      refusal: (_, cause) => cause,
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
  expect(await sizesOf(Array.from({ length: 9 }, () => 60 * 1024))).toEqual([4, 4, 1]);
});

test('a long message goes alone', async () => {
  expect(await sizesOf([10, 1024 * 1024, 10, 10, 70_000, 70_000])).toEqual([1, 1, 2, 1, 1]);
});

test('calls that an answer sets off go out in one batch, though each comes some microtasks later', async () => {
  const sizes: number[] = [];
  const clock = new VirtualClock();
  await clock.run(async () => {
    const batches: Batches = new Batches({
      clock,
      attemptMs: 1000,
      patienceMs: 12_000,
      refusal: (_, cause) => cause,
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
      patienceMs: 12_000,
      refusal: (_, cause) => cause,
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

test('what is never answered while the backend is well is given up after its time, and those behind it go on', async () => {
  const clock = new VirtualClock();
  const sent: string[] = [];
  const told: string[] = [];
  let isTrusted = false;
  await clock.run(async () => {
    const batches = new Batches({
      clock,
      attemptMs: 1000,
      patienceMs: 12_000,
      canSend: () => true,
      isTrusted: () => isTrusted,
      send: async (batch, ops) => {
        const names = ops.map((op) => `${op.op} ${op.key}`).join(', ');
        if (sent.at(-1) !== `${batch}: ${names}`) sent.push(`${batch}: ${names}`);
        if (ops.some(({ op }) => op === 'accept')) throw new Error('too much');
        return { kind: 'applied', era: 1, results: ops.map(() => null), news: { grants: [], adopted: [], parked: [] } };
      },
      onAnswer: () => {},
      onFailure: () => {},
      refusal: (op, cause) => new Error(`${op.op} ${op.key}: ${cause.message}`),
    });
    const pending: Pending = {
      ...pendingOf(1),
      reject: ({ message }) => {
        pending.abandoned = true;
        told.push(message);
      },
    };
    batches.push(pending);
    batches.push({ ...pendingOf(1), op: { op: 'release', key: 'a', seq: 1, how: 'done' } });
    await clock.sleep(60_000);
    batches.push({ ...pendingOf(1), op: { op: 'reserve', key: 'b' } });
    expect([sent, told]).toEqual([['1: accept chat, release a'], []]);
    isTrusted = true;
    await batches.idle();
    batches.reset();
  });

  expect(told).toEqual(['accept chat: too much']);
  expect(sent).toEqual(['1: accept chat, release a', '1: drop , release a', '2: reserve b']);
});

test('what there is no room for is given up after its time, and what needs less is tried', async () => {
  const clock = new VirtualClock();
  const told: string[] = [];
  const done: number[] = [];
  await clock.run(async () => {
    const batches = new Batches({
      clock,
      attemptMs: 1000,
      patienceMs: 12_000,
      canSend: () => true,
      isTrusted: () => true,
      send: async (_, ops) => {
        const lengths = ops.map((op) => (op.op === 'accept' ? op.body.length : 0));
        const isFull = lengths.some((length) => length > 1000);
        if (isFull) throw new CoordinationUnavailableError('unavailable', 'full', { hasNoRoom: true });
        done.push(...lengths);
        return { kind: 'applied', era: 1, results: ops.map(() => null), news: { grants: [], adopted: [], parked: [] } };
      },
      onAnswer: () => {},
      onFailure: () => {},
      refusal: (_, cause) => cause,
    });
    batches.push({ ...pendingOf(300_000), reject: (error) => told.push(error.message) });
    batches.push(pendingOf(10));
    await batches.idle();
    batches.reset();
  });

  expect([told, done]).toEqual([['full'], [10]]);
});

test('a short batch that is not answered is sent again in its own time, also after a long one', async () => {
  const clock = new VirtualClock();
  const sentAtMs: number[] = [];
  await clock.run(async () => {
    const batches = new Batches({
      clock,
      attemptMs: 1000,
      patienceMs: 12_000,
      canSend: () => true,
      isTrusted: () => true,
      send: async (_, ops) => {
        sentAtMs.push(clock.monotonicMs());
        if (sentAtMs.length === 2) await new Promise(() => {});
        return { kind: 'applied', era: 1, results: ops.map(() => null), news: { grants: [], adopted: [], parked: [] } };
      },
      onAnswer: () => {},
      onFailure: () => {},
      refusal: (_, cause) => cause,
    });
    batches.push(pendingOf(1_000_000));
    await batches.idle();
    batches.push(pendingOf(1));
    await batches.idle();
    batches.reset();
  });

  expect(sentAtMs[2]! - sentAtMs[1]!).toBeLessThan(1_100);
});
