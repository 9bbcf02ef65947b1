// For the tests of this package: whole meshes on a real server, in virtual time, which stands still while a request, an
// answer or a push is on its way. Nothing depends on how fast the machine is.
import { randomUUID } from 'node:crypto';
import { type BotSubject, storeMesh, VirtualClock } from '@botmesh/core/testing';
import { NatsStateStore } from '../src/NatsStateStore.js';
import { NatsStore } from '../src/NatsStore.js';
import { placeOf } from '../src/namespace.js';
import { type Desk, START_MS, TIMEOUT_MS } from './stores.js';

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

/** Meshes on one server, each in a namespace of its own, one at a time. */
export function virtualSubject(desk: Desk): BotSubject {
  let clock = new VirtualClock();
  return {
    name: 'nats in virtual time',
    faults: ['stepClock', 'wipe', 'restart', 'rollback'],
    async open({ shards = 1, leaseMs = 12_000 } = {}) {
      clock = new VirtualClock();
      const time = clock;
      const namespace = randomUUID();
      let steppedMs = 0;
      let server = 1;
      const told = () => ({ nowMs: START_MS + steppedMs + Math.round(time.monotonicMs()), server: String(server) });
      const places = Array.from({ length: shards }, (_, shard) => placeOf(namespace, shard));
      for (const place of places) await desk.bear(place, told());
      const stores = places.map(() => new Set<NatsStore>());
      const still = async <T>(act: () => Promise<T>): Promise<T> => {
        const release = time.hold();
        return act().finally(release);
      };
      const restart = async (): Promise<void> => {
        server += 1;
        await Promise.all(stores.flatMap((of) => reading(of).map((store) => store.log.again())));
      };
      return storeMesh({
        clock: time,
        leaseMs,
        shards,
        createStore: (shard) => {
          const store = new NatsStore({
            link: desk.shared(),
            place: places[shard]!,
            wish: { replicas: undefined, maxBytes: undefined },
            timeoutMs: TIMEOUT_MS,
            told,
          });
          stores[shard]!.add(store);
          return holding(store, time, () => allRead(stores[shard]!));
        },
        server: {
          stepClock: (byMs) => {
            steppedMs += byMs;
          },
          restart: () => still(restart),
          wipe: () =>
            still(async () => {
              for (const place of places) await desk.remove(place);
              await restart();
            }),
          snapshot: () =>
            still(async () => {
              const copies: (() => Promise<void>)[] = [];
              for (const place of places) copies.push(await desk.copy(place));
              return () =>
                still(async () => {
                  for (const putBack of copies) await putBack();
                  await restart();
                });
            }),
        },
        close: () =>
          still(async () => {
            for (const place of places) await desk.remove(place);
          }),
      });
    },
    async openState() {
      const state = new NatsStateStore({ client: desk.client, namespace: randomUUID() });
      return { store: holding(state, clock, async () => {}), close: () => state.close() };
    },
  };
}

function reading(stores: Iterable<NatsStore>): NatsStore[] {
  return [...stores].filter(({ log }) => log.isReading);
}

/** When each has read what any of them has: so what one did, the others have heard of. */
async function allRead(stores: Iterable<NatsStore>): Promise<void> {
  const open = reading(stores);
  const last = Math.max(0, ...open.map(({ log }) => log.applied));
  await Promise.all(open.map(({ log }) => log.reached(last)));
}
