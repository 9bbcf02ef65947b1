import { copyFileSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Push } from '@botmesh/core/spi';
import {
  type ConformanceMesh,
  type ConformanceSubject,
  coordinatorConformance,
  inboxConformance,
  stateConformance,
  storeMesh,
  VirtualClock,
} from '@botmesh/core/testing';
import { beforeAll, describe, test } from 'vitest';
import { findDriver } from './driver.js';
import { openFile } from './file.js';
import { SqliteStateStore, SqliteStore } from './index.js';
import type { Wire } from './Wire.js';

beforeAll(async () => {
  // Loading takes real time, which a virtual clock would not wait for.
  await findDriver();
});

interface Runnable {
  readonly title: string;
  readonly skip?: string;
  run(): Promise<void>;
}

function declare(tests: readonly Runnable[]): void {
  for (const each of tests) {
    const { title, skip } = each;
    test(skip === undefined ? title : `${title} (skipped: ${skip})`, { skip: skip !== undefined }, () => each.run());
  }
}

function folder(): { path: string; remove(): void } {
  const made = mkdtempSync(join(tmpdir(), 'botmesh-sqlite-'));
  return { path: join(made, 'mesh.db'), remove: () => rmSync(made, { recursive: true, force: true }) };
}

/** Pushes between stores of this process, without the time a socket takes. */
class Bus {
  readonly #listeners = new Map<string, (push: Push) => void>();

  makeWire(): Wire {
    const own: string[] = [];
    return {
      listen: async (instance, onPush) => {
        own.push(instance);
        this.#listeners.set(instance, onPush);
      },
      send: (instance, push) => this.#listeners.get(instance)?.(push),
      close: () => {
        for (const instance of own.splice(0)) this.#listeners.delete(instance);
      },
    };
  }
}

/** The tables on a real file, each replica with a connection of its own; the clock is virtual. */
const subject: ConformanceSubject = {
  name: 'sqlite',
  faults: ['stepClock'],
  async open({ shards = 1, leaseMs = 12_000 } = {}): Promise<ConformanceMesh> {
    const { path, remove } = folder();
    const clock = new VirtualClock();
    const bus = new Bus();
    let stepMs = 0;
    return storeMesh({
      clock,
      leaseMs,
      shards,
      createStore: (shard) =>
        new SqliteStore({
          path: `${path}${shard}`,
          time: () => ({ nowMs: clock.monotonicMs() + stepMs, wallMs: clock.wallMs() + stepMs }),
          makeWire: () => bus.makeWire(),
        }),
      server: {
        stepClock: (ms) => {
          stepMs += ms;
        },
      },
      close: remove,
    });
  },
};

describe('sqlite', () => {
  declare([...coordinatorConformance(subject), ...inboxConformance(subject)]);
});

describe('sqlite state', () => {
  declare(
    stateConformance({
      name: 'sqlite',
      async open() {
        const { path, remove } = folder();
        const store = new SqliteStateStore({ path });
        const other = new SqliteStateStore({ path });
        return {
          store,
          other,
          async close() {
            await Promise.all([store.close(), other.close()]);
            remove();
          },
        };
      },
    }),
  );
});
void copyFileSync;
void openFile;
