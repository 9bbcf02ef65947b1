import type { Clock, StateStore } from '@botmesh/core/spi';
import {
  botConformance,
  type ConformanceMesh,
  type ConformanceSubject,
  coordinatorConformance,
  demandSameAnswers,
  inboxConformance,
  mailroomConformance,
  memoryStoreLab,
  stateConformance,
  storeConformance,
  storeMesh,
  VirtualClock,
} from '@botmesh/core/testing';
import { beforeAll, describe, test } from 'vitest';
import { storeLab } from '../testing/store-lab.js';
import { findDriver } from './driver.js';
import { SqliteStateStore, SqliteStore } from './index.js';
import { Bus, copyOf, hostClock, makeFolder, removeDatabase } from './lab.test-support.js';

// Loading takes real time, which a virtual clock would not wait for.
beforeAll(async () => {
  await findDriver();
});

function declare(tests: readonly { title: string; skip?: string; run: () => Promise<void> }[]): void {
  for (const { title, skip, run } of tests) {
    test(skip === undefined ? title : `${title} (skipped: ${skip})`, { skip: skip !== undefined }, run);
  }
}

/** Tables in a real file, each replica with a connection of its own; the clock is virtual. */
const subject: ConformanceSubject = {
  name: 'sqlite',
  faults: ['stepClock', 'wipe', 'restart', 'rollback'],
  async open({ shards = 1, leaseMs = 12_000 } = {}): Promise<ConformanceMesh> {
    const folder = makeFolder();
    const clock = new VirtualClock();
    const bus = new Bus();
    const { time, step } = hostClock(clock);
    const files = Array.from({ length: shards }, (_, shard) => `${folder.file}-${shard}`);
    return storeMesh({
      clock,
      leaseMs,
      shards,
      createStore: (shard) => new SqliteStore({ path: files[shard]!, time, makeWire: bus.makeWire }),
      server: {
        stepClock: step,
        wipe: () => {
          files.forEach(removeDatabase);
          // As long as it takes at the least: stamps of one moment are told apart by the counter that is gone.
          step(1);
        },
        restart: async () => {
          for (const file of files) (await copyOf(file))();
        },
        snapshot: async () => {
          const putBack = await Promise.all(files.map(copyOf));
          return () => {
            for (const each of putBack) each();
          };
        },
      },
      close: () => folder.remove(),
    });
  },
};

describe('sqlite', () => {
  declare([...coordinatorConformance(subject), ...inboxConformance(subject), ...mailroomConformance(subject)]);
});

/** A store whose calls take no time on a virtual clock: many in a row give way to the event loop, in real time. */
function untimed(store: StateStore, clock: Clock): StateStore {
  const during = async <T>(call: Promise<T>): Promise<T> => {
    const release = clock instanceof VirtualClock ? clock.hold() : () => {};
    try {
      return await call;
    } finally {
      release();
    }
  };
  return {
    load: (key) => during(store.load(key)),
    save: (key, value, fence) => during(store.save(key, value, fence)),
    ...(store.delete === undefined ? {} : { delete: (key: string) => during(store.delete!(key)) }),
  };
}

describe('bots on sqlite', () => {
  const openState = async (clock: Clock) => {
    const folder = makeFolder();
    const state = new SqliteStateStore({ path: folder.file });
    const store = untimed(state, clock);
    const close = async (): Promise<void> => {
      await state.close();
      folder.remove();
    };
    return { store, close };
  };
  declare(botConformance({ ...subject, openState }));
});

describe('sqlite, step by step', () => {
  declare(storeConformance({ name: 'sqlite', open: storeLab, can: ['moveClock', 'restart', 'wipe', 'snapshot'] }));

  const lists = Number(process.env.BOTMESH_LISTS ?? 40);
  test(`${lists} random lists of steps are answered as the reference answers them`, async () => {
    for (let seed = 1; seed <= lists; seed++) {
      await demandSameAnswers({ reference: memoryStoreLab, subject: storeLab, seed, steps: 60 });
    }
  }, 120_000);
});

describe('sqlite state', () => {
  declare(
    stateConformance({
      name: 'sqlite',
      async open() {
        const folder = makeFolder();
        const [store, other] = [
          new SqliteStateStore({ path: folder.file }),
          new SqliteStateStore({ path: folder.file }),
        ];
        const close = async (): Promise<void> => {
          await Promise.all([store.close(), other.close()]);
          folder.remove();
        };
        return { store, other, close };
      },
    }),
  );
});
