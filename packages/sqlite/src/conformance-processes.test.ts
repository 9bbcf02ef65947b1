import type { Store, Taken } from '@botmesh/core/spi';
import {
  type ConformanceMesh,
  type ConformanceSubject,
  coordinatorConformance,
  demandSameAnswers,
  inboxConformance,
  mailroomConformance,
  memoryStoreLab,
  type StoreLab,
  stateConformance,
  storeConformance,
  storeMesh,
  VirtualClock,
} from '@botmesh/core/testing';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { findDriver, type Open } from './driver.js';
import { hostClock, makeFolder } from './lab.test-support.js';
import { fileMesh, ProcessPool } from './mesh.test-support.js';
import { Presence } from './Presence.js';
import { ownIdentity } from './processes.js';
import { RemoteStateStore } from './remote.test-support.js';

const pool = new ProcessPool();
let open: Open;

beforeAll(async () => {
  open = (await findDriver()).open;
  await pool.drivers(3);
});

afterAll(() => pool.end());

function declare(tests: readonly { title: string; skip?: string; run: () => Promise<void> }[]): void {
  for (const { title, skip, run } of tests) test(title, { skip: skip !== undefined, timeout: 60_000 }, run);
}

/** The clock is virtual, and stands still while something is on its way between processes: only the waits are not real. */
const subject: ConformanceSubject = {
  name: 'sqlite, on processes',
  faults: ['stepClock', 'wipe', 'restart', 'rollback'],
  async open({ shards = 1, leaseMs = 12_000 } = {}): Promise<ConformanceMesh> {
    const clock = new VirtualClock();
    const { time, step } = hostClock(clock);
    const mesh = fileMesh({ pool, shards, hold: () => clock.hold(), time, open });
    const wipe = async (): Promise<void> => {
      await mesh.server.wipe();
      // As long as it takes at the least: stamps of one moment are told apart by the counter that is gone.
      step(1);
    };
    return storeMesh({ ...mesh, clock, leaseMs, shards, server: { ...mesh.server, wipe, stepClock: step } });
  },
};

/** One file and three processes; each replica has one of them. */
async function storeLab(): Promise<StoreLab> {
  const { time, step } = hostClock(new VirtualClock());
  const mesh = fileMesh({ pool, shards: 1, time, looks: false, open });
  const stores = [mesh.createStore(0), mesh.createStore(0), mesh.createStore(0)];
  const homes = new Map<string, Store>();
  const homeOf = (instance: string): Store => {
    const home = homes.get(instance) ?? stores[homes.size % stores.length]!;
    homes.set(instance, home);
    return home;
  };
  // The reference cannot know that nobody was at work, and waits. SQLite can: here somebody always is.
  const somebody = (): void => new Presence(mesh.path, ownIdentity()).note('somebody');
  let looks = 0;
  const anyOf = (): Store => stores[looks++ % stores.length]!;
  return {
    store: {
      join: (request) => homeOf(request.instance).join(request),
      apply: (request) => homeOf(request.instance).apply(request),
      beat: (request) => homeOf(request.instance).beat(request),
      leave: (request) => homeOf(request.instance).leave(request),
      subscribe: (instance, listener) => homeOf(instance).subscribe(instance, listener),
      waiting: (request) => anyOf().waiting(request),
      pace: (request) => anyOf().pace(request),
      inspect: () => anyOf().inspect(),
      close: async () => {
        await Promise.all(stores.map((store) => store.close()));
      },
    },
    moveClock: step,
    wipe: async () => {
      somebody();
      await mesh.server.wipe();
    },
    restart: async () => {
      somebody();
      await mesh.server.restart();
    },
    snapshot: async () => {
      const putBack = await mesh.server.snapshot();
      return async () => {
        somebody();
        await putBack();
      };
    },
    arrived: mesh.arrived,
    close: async () => {
      await Promise.all(stores.map((store) => store.close()));
      mesh.close();
    },
  };
}

test('every store of a mesh is in a process of its own', () => {
  const processes = Array.from({ length: 6 }, (_, index) => pool.at(index).pid);

  expect(new Set([process.pid, ...processes]).size).toBe(7);
});

test('steps that processes make at once are made one after the other', async () => {
  const { time } = hostClock(new VirtualClock());
  const mesh = fileMesh({ pool, shards: 1, time, open });
  const stores = Array.from({ length: 4 }, () => mesh.createStore(0));
  const config = { format: 1, leaseMs: 12_000, shards: 1 };
  const places: (Taken | null | undefined)[] = [];
  const reserve = async (store: Store, instance: string): Promise<void> => {
    const joined = await store.join({ replicaId: instance, instance, firstEpoch: 0, config, adopts: false, seen: 0 });
    if (joined.kind !== 'joined') throw new Error(`The join was answered ${joined.kind}.`);
    for (let batch = 1; batch <= 12; batch++) {
      const ops = [{ op: 'reserve', key: 'k' } as const];
      const answer = await store.apply({ epoch: joined.epoch, instance, batch, ops });
      places.push(answer.kind === 'applied' ? answer.results[0] : undefined);
    }
  };

  // Eight replicas each, so that every process has always one more step to make.
  await Promise.all(Array.from({ length: 32 }, (_, n) => reserve(stores[n % 4]!, `instance ${n}`)));
  const { queues } = await stores[0]!.inspect();
  await Promise.all(stores.map((store) => store.close()));
  mesh.close();

  expect(new Set(places.map((place) => place?.seq)).size).toBe(32 * 12);
  expect(places.filter((place) => place?.fence !== 0)).toHaveLength(1);
  expect(queues.map(({ waiting }) => waiting + 1)).toEqual([32 * 12]);
}, 60_000);

describe('sqlite, each replica in a process', () => {
  declare([...coordinatorConformance(subject), ...inboxConformance(subject), ...mailroomConformance(subject)]);
});

describe('sqlite, step by step in three processes', () => {
  declare(
    storeConformance({
      name: 'sqlite, on processes',
      open: storeLab,
      can: ['moveClock', 'restart', 'wipe', 'snapshot'],
    }),
  );

  const lists = Number(process.env.BOTMESH_LISTS ?? 40);
  test(`${lists} random lists of steps are answered as the reference answers them`, async () => {
    for (let seed = 1; seed <= lists; seed++) {
      await demandSameAnswers({ reference: memoryStoreLab, subject: storeLab, seed, steps: 60 });
    }
  }, 120_000);
});

describe('sqlite state, two processes', () => {
  declare(
    stateConformance({
      name: 'sqlite state, on processes',
      async open() {
        const folder = makeFolder();
        const store = new RemoteStateStore(pool.at(0), folder.file);
        const other = new RemoteStateStore(pool.at(1), folder.file);
        const close = async (): Promise<void> => {
          await Promise.all([store.close(), other.close()]);
          folder.remove();
        };
        return { store, other, close };
      },
      lacks: {
        'an argument that cannot be is refused by name, and changes nothing':
          'The arguments go to the other process as JSON, which has none that cannot be.',
      },
    }),
  );
});
