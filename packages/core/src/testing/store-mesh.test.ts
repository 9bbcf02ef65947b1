import { describe, expect, test } from 'vitest';
import { MemoryStore } from '../coordination/MemoryStore.js';
import type { ConformanceSubject } from './conformance.js';
import { coordinatorConformance } from './coordinator-conformance.js';
import { inboxConformance } from './inbox-conformance.js';
import { PROMISES } from './promises.js';
import { storeMesh } from './store-mesh.js';
import { VirtualClock } from './VirtualClock.js';

/** A backend as its author would give it: a store, and no power over its server. */
const subject: ConformanceSubject = {
  name: 'a plain store',
  lacks: { 24: 'this subject claims so' },
  async open({ shards = 1, leaseMs = 12_000 } = {}) {
    const clock = new VirtualClock();
    const stores = Array.from({ length: shards }, () => new MemoryStore({ clock }));
    return storeMesh({ clock, leaseMs, shards, createStore: (shard) => stores[shard]! });
  },
};
const suite = [...coordinatorConformance(subject), ...inboxConformance(subject)];
const isWhole = ({ title }: { title: string }): boolean => (Object.values(PROMISES) as string[]).includes(title);

describe('storeMesh', () => {
  for (const { title, run } of suite.filter(({ skip, promise }) => skip === undefined && promise > 0).filter(isWhole)) {
    test(title, run);
  }
});

describe('suites', () => {
  test('a test that the subject cannot run says why', () => {
    const skipped = suite.filter(({ skip }) => skip !== undefined);

    expect(new Set(skipped.map(({ promise }) => promise))).toEqual(new Set([4, 9, 18, 24, 27, 28]));
    expect(skipped.find(({ promise }) => promise === 24)?.skip).toBe('this subject claims so');
    expect(skipped.find(({ promise }) => promise === 28)?.skip).toContain('cannot be made to stepClock');
  });

  test('every promise has a test, each title begins with its sentence, and no two are the same', () => {
    const promises = Object.entries(PROMISES) as [string, string][];

    for (const [number, sentence] of promises) {
      const own = suite.filter(({ promise }) => promise === Number(number));
      expect(own.map(({ title }) => title)).toContain(sentence);
      expect(own.every(({ title }) => title.startsWith(sentence))).toBe(true);
    }
    expect(new Set(suite.map(({ title }) => title)).size).toBe(suite.length);
  });
});
