// For the tests of this package: whole meshes on a real server, in virtual time, which stands still while a request, an
// answer or a push is on its way. Nothing depends on how fast the machine is.
import { randomUUID } from 'node:crypto';
import { type BotSubject, storeMesh, VirtualClock } from '@botmesh/core/testing';
import type { Place } from '../src/clients/place.js';
import { PostgresStateStore } from '../src/PostgresStateStore.js';
import { PostgresStore } from '../src/PostgresStore.js';
import { START_MS, type ToldSchema } from './told.js';

const POLL_MS = 250;

/** `target`, with `clock` standing still until what each call set off is over. */
function holding<T extends object>(target: T, clock: VirtualClock, over: () => Promise<void>): T {
  const during = async (call: Promise<unknown>): Promise<unknown> => {
    const release = clock.hold();
    try {
      const value = await call;
      // How to end a subscription, which takes a request too.
      return typeof value === 'function' ? () => during((value as () => Promise<unknown>)()) : value;
    } finally {
      await over().finally(release);
    }
  };
  return new Proxy(target, {
    get: (_target, name) => {
      const value = Reflect.get(target, name, target) as unknown;
      if (typeof value !== 'function') return value;
      return (...args: unknown[]) => {
        const result = value.apply(target, args) as unknown;
        return result instanceof Promise ? during(result) : result;
      };
    },
  });
}

/** Meshes in one schema, each in a namespace of its own, one at a time. */
export function virtualSubject(schema: ToldSchema, place: Required<Pick<Place, 'client'>>): BotSubject {
  let clock = new VirtualClock();
  const isPolling = schema.client.wakeUp === 'poll';
  return {
    ...(isPolling && { lacks: { 26: 'who polls is sent no pushes' } }),
    name: 'postgres in virtual time',
    faults: ['stepClock', 'wipe', 'restart', 'rollback'],
    async open({ shards = 1, leaseMs = 12_000 } = {}) {
      clock = new VirtualClock();
      const time = clock;
      const namespace = randomUUID();
      for (let shard = 0; shard < shards; shard++) await schema.bear(namespace, shard);
      let steppedMs = 0;
      const still = async <T>(act: () => Promise<T>): Promise<T> => {
        const release = time.hold();
        return act().finally(release);
      };
      // Whoever polls asks between the steps as well.
      const client = schema.at(
        () => START_MS + steppedMs + Math.round(time.monotonicMs()),
        (call) => still(() => call),
      );
      return storeMesh({
        clock: time,
        leaseMs,
        shards,
        // Who waits for nothing hears of the rest with its next heartbeat.
        ...(isPolling && { slackMs: leaseMs / 6 + 2 * POLL_MS }),
        createStore: (shard) => {
          const store = new PostgresStore({
            client,
            schema: schema.name,
            namespace,
            shard,
            synchronousCommit: false,
            lockMs: 5_000,
            pollMs: POLL_MS,
            clock: time,
          });
          return holding(store, time, async () => {
            await store.sent();
            await schema.heard();
          });
        },
        server: {
          stepClock: (byMs) => {
            steppedMs += byMs;
          },
          restart: () => still(() => schema.restart()),
          wipe: () =>
            still(async () => {
              await schema.wipe(namespace);
              await schema.restart();
            }),
          snapshot: () =>
            still(async () => {
              const putBack = await schema.copy(namespace);
              return () =>
                still(async () => {
                  await putBack();
                  await schema.restart();
                });
            }),
        },
        close: () => still(() => schema.wipe(namespace)),
      });
    },
    async openState() {
      const state = new PostgresStateStore({ ...place, schema: schema.name, namespace: randomUUID() });
      return { store: holding(state, clock, async () => {}), close: () => state.close() };
    },
  };
}
