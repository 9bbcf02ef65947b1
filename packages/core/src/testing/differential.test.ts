import { expect, test } from 'vitest';
import { MemoryStore } from '../coordination/MemoryStore.js';
import type { ApplyRequest, BeatRequest } from '../coordination/store.js';
import { compareStores, demandSameAnswers } from './differential.js';
import { memoryStoreLab, type OpenStore } from './store-lab.js';
import { VirtualClock } from './VirtualClock.js';

/** A memory store whose steps are tampered with. */
function planted(tamper: (store: MemoryStore) => Partial<MemoryStore>): OpenStore {
  return async () => {
    const lab = await memoryStoreLab();
    const changes = tamper(lab.store as MemoryStore);
    const store = new Proxy(lab.store, {
      get: (target, name) => {
        const value = Reflect.get(changes, name) ?? Reflect.get(target, name, target);
        return typeof value === 'function' ? value.bind(target) : value;
      },
    });
    return { ...lab, store };
  };
}

async function firstDifference(subject: OpenStore) {
  for (let seed = 1; seed <= 60; seed++) {
    const difference = await compareStores({ reference: memoryStoreLab, subject, seed, steps: 80 });
    if (difference !== undefined) return difference;
  }
  return undefined;
}

test('two memory stores on different clocks give the same answers', async () => {
  const later: OpenStore = async () => {
    const store = new MemoryStore({ clock: new VirtualClock({ wallMs: 1_700_000_000_000, seed: 9 }) });
    const lab = await memoryStoreLab();
    return {
      ...lab,
      store,
      moveClock: (byMs) => store.stepClock(byMs),
      restart: () => store.restart(),
      wipe: () => store.wipe(),
      snapshot: async () => {
        const copy = store.snapshot();
        return () => store.rollback(copy);
      },
    };
  };

  for (let seed = 1; seed <= 150; seed++) {
    await demandSameAnswers({ reference: memoryStoreLab, subject: later, seed, steps: 120 });
  }
});

test('a store that drops the last grant from a heartbeat is found, on a short list', async () => {
  const difference = await firstDifference(
    planted((store) => ({
      beat: async (request: BeatRequest) => {
        const answer = await store.beat(request);
        if (answer.kind !== 'alive') return answer;
        return { ...answer, news: { ...answer.news, grants: answer.news.grants.slice(0, -1) } };
      },
    })),
  );

  expect(difference?.found).toContain('grants');
  expect(difference?.steps.length).toBeLessThanOrEqual(8);
});

test('a store that does a repeated batch twice is found, on a short list', async () => {
  let extra = 0;
  const difference = await firstDifference(
    planted((store) => ({
      apply: async (request: ApplyRequest) => {
        extra += 1;
        const answer = await store.apply(request);
        if (answer.kind !== 'stale') return answer;
        return store.apply({ ...request, batch: request.batch + 100 + extra });
      },
    })),
  );

  expect(difference?.found).toContain('kind');
  expect(difference?.steps.length).toBeLessThanOrEqual(6);
});

test('a store whose stamps fall is found', async () => {
  const difference = await firstDifference(
    planted((store) => ({
      join: async (request) => {
        const answer = await store.join(request);
        return answer.kind === 'joined' ? { ...answer, epoch: 4_000_000_000_000_000 - answer.epoch } : answer;
      },
    })),
  );

  expect(difference).toBeDefined();
});

test('the same seed gives the same shortest list', async () => {
  const subject = planted((store) => ({
    leave: async (request) => {
      await store.leave({ ...request, instance: 'nobody' });
    },
  }));

  expect(await firstDifference(subject)).toEqual(await firstDifference(subject));
});
