import { BadInputError, StaleFenceError } from '../errors.js';
import type { StateStore } from '../state/state-store.js';
import { assertEqual, assertRejects } from './assertions.js';

/** A state store under test. */
export interface StateSubject {
  readonly name: string;
  /** Opens an empty store, and a second client of the same one where the backend has clients. */
  readonly open: () => Promise<OpenState>;
  /** Titles of tests that it cannot pass, with the reason. */
  readonly lacks?: Readonly<Record<string, string>>;
}

export interface OpenState {
  readonly store: StateStore;
  /** Another client that sees the same data. Default: `store`. */
  readonly other?: StateStore;
  readonly close?: () => Promise<void>;
}

export interface StateTest {
  readonly title: string;
  /** Rejects when the fact does not hold. */
  readonly run: () => Promise<void>;
  readonly skip?: string;
}

type Body = (store: StateStore, other: StateStore) => Promise<void>;

/** What every state store must do, for any test runner: call `run` of each, unless `skip` tells why not. */
export function stateConformance(subject: StateSubject): StateTest[] {
  return Object.entries(FACTS).map(([title, body]) => {
    const skip = subject.lacks?.[title];
    const run = async (): Promise<void> => {
      const { store, other = store, close } = await subject.open();
      try {
        await body(store, other);
      } finally {
        await close?.();
      }
    };
    return skip === undefined ? { title, run } : { title, run, skip };
  });
}

const FACTS: Record<string, Body> = {
  'what was never saved is null': async (store) => {
    assertEqual(await store.load('nobody'), null);
  },

  'a saved value is loaded with its fence, also by another client': async (store, other) => {
    await store.save('k', { a: [1, 'two', null, true, { deep: '' }] }, 7);

    assertEqual(await store.load('k'), { value: { a: [1, 'two', null, true, { deep: '' }] }, fence: 7 });
    assertEqual(await other.load('k'), { value: { a: [1, 'two', null, true, { deep: '' }] }, fence: 7 });
  },

  'a greater fence and the same one may save again': async (store, other) => {
    await store.save('k', { n: 1 }, 7);
    await other.save('k', { n: 2 }, 9);
    await store.save('k', { n: 3 }, 9);

    assertEqual(await other.load('k'), { value: { n: 3 }, fence: 9 });
  },

  'a write under an older fence is refused as stale and changes nothing': async (store, other) => {
    await store.save('k', { n: 1 }, 9);

    const error = await assertRejects(other.save('k', { n: 2 }, 8), StaleFenceError);

    assertEqual([error.code, error.fence, error.newestFence], ['stale-fence', 8, 9]);
    assertEqual(await store.load('k'), { value: { n: 1 }, fence: 9 });
  },

  'of writes at the same time the greatest fence remains': async (store, other) => {
    const writes = [];
    for (let fence = 1; fence <= 20; fence++) writes.push((fence % 2 ? store : other).save('k', { fence }, fence));
    const outcomes = await Promise.allSettled(writes);

    assertEqual(await store.load('k'), { value: { fence: 20 }, fence: 20 });
    for (const outcome of outcomes) {
      if (outcome.status === 'rejected') assertEqual(outcome.reason instanceof StaleFenceError, true);
    }
  },

  'fences as great as integers get are told apart': async (store, other) => {
    const fence = Number.MAX_SAFE_INTEGER;
    await store.save('k', 'newer', fence);

    await assertRejects(other.save('k', 'older', fence - 1), StaleFenceError);

    assertEqual(await other.load('k'), { value: 'newer', fence });
  },

  'keys do not touch each other, whatever their text': async (store, other) => {
    const keys = [
      'k',
      'K',
      ' k',
      'k ',
      'k:1',
      'k*',
      '{k}',
      'k\n',
      '%6B',
      'ключ',
      '🔑',
      '__proto__',
      'constructor',
      "k'; --",
    ];
    for (const [i, key] of keys.entries()) await store.save(key, { i }, i + 1);

    for (const [i, key] of keys.entries()) assertEqual(await other.load(key), { value: { i }, fence: i + 1 });
  },

  'any text survives, and a megabyte of it': async (store, other) => {
    const value = { text: 'a\u0000b"\\\u2028🔑é\n', lone: '\ud800', long: 'x'.repeat(1_000_000) };
    await store.save('k', value, 1);

    assertEqual(await other.load('k'), { value, fence: 1 });
  },

  'null, false, zero and the empty text are values': async (store, other) => {
    for (const [i, value] of [null, false, 0, '', [], {}].entries()) {
      await store.save('k', value, i + 1);

      assertEqual(await other.load('k'), { value, fence: i + 1 });
    }
  },

  'changing a value after saving or loading changes nothing stored': async (store) => {
    const value = { list: [1] };
    await store.save('k', value, 1);
    value.list.push(2);
    const loaded = (await store.load('k'))?.value as { list: number[] };
    loaded.list.push(3);

    assertEqual(await store.load('k'), { value: { list: [1] }, fence: 1 });
  },

  'what cannot be JSON is refused, and changes nothing': async (store) => {
    const circle: Record<string, unknown> = {};
    circle.self = circle;
    await store.save('k', { n: 1 }, 1);

    await assertRejects(store.save('k', circle, 2), Error);

    assertEqual((await store.load('k'))?.value, { n: 1 });
  },

  'an argument that cannot be is refused by name, and changes nothing': async (store, other) => {
    await store.save('k', { n: 1 }, 1);
    const no = undefined as never;
    for (const key of [no, null as never, 1 as never, {} as never, Symbol('k') as never]) {
      for (const call of [() => store.load(key), () => store.save(key, 1, 2), () => store.delete?.(key)]) {
        const promise = call();
        if (promise === undefined) continue;
        const error = await assertRejects(promise, BadInputError);
        assertEqual([error.code, error.message.includes('key is ')], ['bad-input', true]);
      }
    }
    for (const fence of [no, null as never, '7' as never, 7n as never, Number.NaN, Infinity, -1, 1.5, 2 ** 53]) {
      const error = await assertRejects(store.save('k', { n: 2 }, fence), BadInputError);
      assertEqual(error.message.includes('fence is '), true);
    }
    for (const value of [no, () => 1, Symbol('v'), 1n, Number.NaN, new Date(0), { deep: [new Map()] }]) {
      const error = await assertRejects(store.save('k', value, 2), BadInputError);
      assertEqual(error.message.includes('value'), true);
    }

    assertEqual(await other.load('k'), { value: { n: 1 }, fence: 1 });
    await store.save('k', { n: 0 }, 1);
    await store.save('new', 'first', 0);
    assertEqual(await other.load('new'), { value: 'first', fence: 0 });
  },

  'a deleted value is gone, where the store can delete': async (store, other) => {
    if (store.delete === undefined) return;
    await store.save('k', 1, 1);
    await store.delete('k');
    await store.delete('k');

    assertEqual(await other.load('k'), null);
  },
};
