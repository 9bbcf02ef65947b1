// For the tests of this package: stores on a server whose time and identity are told instead of asked.
import { createHash, randomUUID } from 'node:crypto';
import type { StoreLab } from '@botmesh/core/testing';
import { BIRTH } from '@botmesh/lab';
import type { Connection, Script } from '../src/clients/connection.js';
import { tagOf } from '../src/namespace.js';
import { RedisStore } from '../src/RedisStore.js';
import { SharedConnection } from '../src/SharedConnection.js';
import { keysOf } from '../src/script/scripts.js';

/** When virtual time begins: whenever will do. */
export const START_MS = 1_750_000_000_000;

/** The time and the server's identity, as a script finds them out. */
export interface Told {
  readonly nowMs: number;
  readonly run: string;
}

const scripts = new Map<string, Script>();

/** The script with what it asks the server for as its last arguments. */
function tellable(script: Script): Script {
  const known = scripts.get(script.sha);
  if (known !== undefined) return known;
  const text = script.text
    .replace(/(redis\.)?call\('TIME'\)/, '{ ARGV[#ARGV - 2], ARGV[#ARGV - 1] }')
    .replace("call('INFO', 'replication')", "('master_replid:' .. ARGV[#ARGV])");
  const made = { text, sha: createHash('sha1').update(text).digest('hex') };
  scripts.set(script.sha, made);
  return made;
}

/** `connection`, with time standing still where it was told. */
export function telling(connection: Connection, told: Told): Connection {
  return {
    ...connection,
    evalsha: (script, keys, args) => {
      const [seconds, microseconds] = [Math.floor(told.nowMs / 1000), (told.nowMs % 1000) * 1000];
      return connection.evalsha(tellable(script), keys, [...args, seconds, microseconds, told.run]);
    },
    close: async () => {},
  };
}

/** An empty store in virtual time, on a connection that stays open. */
export function virtualLab(connection: Connection): () => Promise<StoreLab> {
  let marks = 0;
  let heard = 0;
  let onMark = (): void => {};
  const marking = connection.subscribe('mark', (mark) => {
    heard = Number(mark);
    onMark();
  });
  return async () => {
    await marking;
    const namespace = randomUUID();
    const keys = keysOf(tagOf(namespace, 0));
    const told = { nowMs: START_MS, run: '1' };
    await connection.command(['EVAL', BIRTH, '1', keys[0]!, told.run], keys[0]);
    const shared = new SharedConnection(async () => telling(connection, told));
    const store = new RedisStore({ connection: shared, namespace, shard: 0 });
    const restart = (): void => {
      told.run = String(Number(told.run) + 1);
    };
    const wipe = async (): Promise<void> => {
      await connection.command(['DEL', ...keys], keys[0]);
    };
    const subscriptions: (() => Promise<void>)[] = [];
    const subscribing: RedisStore['subscribe'] = async (instance, listener) => {
      const off = await store.subscribe(instance, listener);
      subscriptions.push(off);
      return off;
    };
    return {
      store: new Proxy(store, {
        get: (target, name) => {
          if (name === 'subscribe') return subscribing;
          const value = Reflect.get(target, name, target) as unknown;
          return typeof value === 'function' ? value.bind(target) : value;
        },
      }),
      moveClock: (byMs) => {
        told.nowMs += byMs;
      },
      restart,
      wipe: async () => {
        await wipe();
        restart();
      },
      snapshot: async () => {
        const copy = `copy-${randomUUID()}`;
        const names = keys.map((key) => `${key}:${copy}`);
        for (const [at, key] of keys.entries()) await connection.command(['COPY', key, names[at]!, 'REPLACE'], key);
        return async () => {
          await wipe();
          for (const [at, key] of keys.entries()) await connection.command(['COPY', names[at]!, key, 'REPLACE'], key);
          restart();
        };
      },
      arrived: async () => {
        const mark = ++marks;
        await connection.command(['PUBLISH', 'mark', String(mark)]);
        while (heard < mark) await new Promise<void>((resolve) => (onMark = resolve));
      },
      close: async () => {
        await Promise.all(subscriptions.map((off) => off()));
        await store.close();
        await wipe();
      },
    };
  };
}
