// For the tests of this package: whole meshes on a real server, in virtual time, which stands still while a request, an
// answer or a push is on its way. Nothing depends on how fast the machine is.
import { randomUUID } from 'node:crypto';
import { type BotSubject, storeMesh, VirtualClock } from '@botmesh/core/testing';
import { BIRTH } from '@botmesh/lab';
import type { Connection } from '../src/clients/connection.js';
import { tagOf } from '../src/namespace.js';
import { RedisStateStore } from '../src/RedisStateStore.js';
import { RedisStore } from '../src/RedisStore.js';
import { SharedConnection } from '../src/SharedConnection.js';
import { keysOf } from '../src/script/scripts.js';
import { START_MS, type Told, telling } from './stores.js';

const REPEAT_MS = 50;

/** Tells when all that was published so far for one shard has been heard: one connection hears it in its order. */
class Marks {
  readonly #connection: Connection;
  readonly #channel: string;
  readonly #waiting = new Map<string, () => void>();
  #listening: Promise<unknown> | undefined;
  #count = 0;

  /** `tag`: of the shard's keys and channels. */
  constructor(connection: Connection, tag: string) {
    this.#connection = connection;
    this.#channel = `${tag}:marks`;
  }

  async passed(): Promise<void> {
    this.#listening ??= this.#connection.subscribe(this.#channel, (mark) => {
      this.#waiting.get(mark)?.();
      this.#waiting.delete(mark);
    });
    await this.#listening;
    const mark = `${++this.#count}`;
    const heard = new Promise<void>((resolve) => this.#waiting.set(mark, resolve));
    const publish = this.#connection.isCluster ? 'SPUBLISH' : 'PUBLISH';
    const say = (): Promise<unknown> => this.#connection.command([publish, this.#channel, mark], this.#channel);
    // A replica that hears nothing has the channels' connection made anew: what is published meanwhile is lost.
    const again = setInterval(() => void say().catch(() => {}), REPEAT_MS);
    await say();
    await heard.finally(() => clearInterval(again));
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
      const tags = Array.from({ length: shards }, (_, shard) => tagOf(namespace, shard));
      const marks = tags.map((tag) => new Marks(connection, tag));
      const keys = tags.map(keysOf);
      for (const [mesh] of keys) await connection.command(['EVAL', BIRTH, '1', mesh!, told.run], mesh);
      const shared = new SharedConnection(async () => telling(connection, told));
      return storeMesh({
        clock: time,
        leaseMs,
        shards,
        createStore: (shard) =>
          holding(new RedisStore({ connection: shared, namespace, shard }), time, () => marks[shard]!.passed()),
        close: async () => {
          const release = time.hold();
          for (const each of keys) await connection.command(['DEL', ...each], each[0]);
          release();
        },
      });
    },
    async openState() {
      const state = new RedisStateStore({ url, cluster: connection.isCluster, namespace: randomUUID() });
      return { store: holding(state, clock, async () => {}), close: () => state.close() };
    },
  };
}
