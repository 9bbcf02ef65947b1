// For the tests of this package: whole meshes on a real server, in virtual time, which stands still while a request, an
// answer or a push is on its way. Nothing depends on how fast the machine is.
import { randomUUID } from 'node:crypto';
import { type BotSubject, storeMesh, VirtualClock } from '@botmesh/core/testing';
import type { Connection } from '../src/clients/connection.js';
import { tagOf } from '../src/namespace.js';
import { RedisStateStore } from '../src/RedisStateStore.js';
import { RedisStore } from '../src/RedisStore.js';
import { SharedConnection } from '../src/SharedConnection.js';
import { keysOf } from '../src/script/scripts.js';
import { BIRTH, START_MS, type Told, telling } from './stores.js';

const MARKS = 'marks';

/** Tells when all that was published so far has been heard: one connection hears it in its order. */
class Marks {
  readonly #connection: Connection;
  readonly #waiting = new Map<string, () => void>();
  #listening: Promise<unknown> | undefined;
  #count = 0;

  constructor(connection: Connection) {
    this.#connection = connection;
  }

  async passed(): Promise<void> {
    this.#listening ??= this.#connection.subscribe(MARKS, (mark) => {
      this.#waiting.get(mark)?.();
      this.#waiting.delete(mark);
    });
    await this.#listening;
    const mark = `${++this.#count}`;
    const heard = new Promise<void>((resolve) => this.#waiting.set(mark, resolve));
    await this.#connection.command(['PUBLISH', MARKS, mark]);
    await heard;
  }
}

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

/** Meshes on the server behind `connection`, each in a namespace of its own, one at a time. */
export function virtualSubject(connection: Connection, url: string): BotSubject {
  const marks = new Marks(connection);
  let clock = new VirtualClock();
  return {
    name: 'redis in virtual time',
    async open({ shards = 1, leaseMs = 12_000 } = {}) {
      clock = new VirtualClock();
      const time = clock;
      const namespace = randomUUID();
      const told: Told = {
        run: '1',
        get nowMs() {
          return START_MS + Math.round(time.monotonicMs());
        },
      };
      const keys = Array.from({ length: shards }, (_, shard) => keysOf(tagOf(namespace, shard)));
      for (const [mesh] of keys) await connection.command(['EVAL', BIRTH, '1', mesh!, told.run], mesh);
      const shared = new SharedConnection(async () => telling(connection, told));
      return storeMesh({
        clock: time,
        leaseMs,
        shards,
        createStore: (shard) =>
          holding(new RedisStore({ connection: shared, namespace, shard }), time, () => marks.passed()),
        close: async () => {
          const release = time.hold();
          for (const each of keys) await connection.command(['DEL', ...each], each[0]);
          release();
        },
      });
    },
    async openState() {
      const state = new RedisStateStore({ url, namespace: randomUUID() });
      return { store: holding(state, clock, async () => {}), close: () => state.close() };
    },
  };
}
