import {
  type ConformanceMesh,
  type ConformanceSubject,
  type ConformanceTest,
  coordinatorConformance,
  inboxConformance,
  storeMesh,
} from '@botmesh/core/testing';
import { describe, test } from 'vitest';
import { bear, TestServer, whyNoMovingClock } from '../testing/lab.js';
import type { Connection } from './clients/connection.js';
import { openConnection } from './clients/open-connection.js';
import { RedisStore } from './RedisStore.js';
import { SharedConnection } from './SharedConnection.js';

const LEASE_MS = 5_000;
/** As many servers at once as two cores can run in time: most of theirs is waiting for leases. */
const MOST_MESHES = 24;
const hasClock = whyNoMovingClock() === undefined;

let meshes = 0;
const waiting: (() => void)[] = [];

/** Waits for a free place among the meshes. Returns how to give it up. */
async function enter(): Promise<() => void> {
  if (meshes === MOST_MESHES) await new Promise<void>((resolve) => waiting.push(resolve));
  else meshes += 1;
  return () => {
    const next = waiting.shift();
    if (next === undefined) meshes -= 1;
    else next();
  };
}

/** A server of its own for each test, and connections of its own for each replica and shard; all in real time. */
const subject: ConformanceSubject = {
  name: 'redis',
  faults: hasClock ? ['stepClock', 'wipe', 'restart', 'rollback'] : ['wipe', 'restart', 'rollback'],
  async open({ shards = 1, leaseMs = LEASE_MS } = {}): Promise<ConformanceMesh> {
    const leave = await enter();
    const server = await TestServer.start({ persistence: 'aof', clock: hasClock });
    const options = { url: server.url, timeoutMs: leaseMs / 6, connectTimeoutMs: leaseMs / 3 };
    for (let shard = 0; shard < shards; shard++) await bear(server, 'test', shard);
    return storeMesh({
      leaseMs,
      shards,
      createStore: async (shard) => {
        // Connected before the start: dozens connect at once here, on a busy machine.
        let first: Promise<Connection> | undefined = openConnection(options);
        await first;
        const connection = new SharedConnection(() => {
          const opening = first ?? openConnection(options);
          first = undefined;
          return opening;
        });
        return new RedisStore({ connection, namespace: 'test', shard });
      },
      server: {
        ...(hasClock ? { stepClock: (ms: number) => server.clock?.move(ms) } : {}),
        wipe: async () => {
          await server.ask('FLUSHALL');
        },
        restart: () => server.restart(),
        snapshot: () => {
          const saved = server.save();
          return () => server.putBack(saved);
        },
      },
      close: async () => {
        await server[Symbol.asyncDispose]();
        leave();
      },
    });
  },
};

/** They keep the process busy with thousands of keys: what runs at their side in real time would come late. */
const isHeavy = ({ promise }: ConformanceTest): boolean => promise === 24 || promise === 25;

function declare(tests: readonly ConformanceTest[], options: { concurrent?: boolean } = {}): void {
  for (const { title, run, skip } of tests)
    test(title, { skip: skip !== undefined, timeout: 600_000, ...options }, run);
}

describe('redis, in real time', () => {
  const suite = [...coordinatorConformance(subject), ...inboxConformance(subject)];

  declare(suite.filter(isHeavy));
  declare(
    suite.filter((each) => !isHeavy(each)),
    { concurrent: true },
  );
});
