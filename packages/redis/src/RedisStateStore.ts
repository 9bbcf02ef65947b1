import {
  ConfigError,
  checkOptionNames,
  checkStateKey,
  checkStateWrite,
  StaleFenceError,
  type StateStore,
  type StoredState,
} from '@botmesh/core/spi';
import type { Connection, ConnectionOptions, TlsOptions } from './clients/connection.js';
import { checkConnectionOptions, openConnection } from './clients/open-connection.js';
import { checkNamespace } from './namespace.js';
import { SharedConnection } from './SharedConnection.js';
import { makeScript } from './script/scripts.js';
import { fromWire, toWire } from './text.js';

export interface RedisStateStoreOptions {
  /** As for `RedisCoordinator`; the same server will do. */
  url?: string;
  client?: unknown;
  cluster?: boolean;
  tls?: TlsOptions;
  namespace?: string;
  /**
   * How long the state of a chat is kept after it was last saved. Its fence is forgotten with it, so it has to be longer
   * than any turn. Default: for ever.
   */
  ttlMs?: number;
  /** How long to wait for an answer. Default 2,000. */
  timeoutMs?: number;
}

const NAMES = {
  url: true,
  client: true,
  cluster: true,
  tls: true,
  namespace: true,
  ttlMs: true,
  timeoutMs: true,
} as const;

/** Shorter than this, a state could go while its turn runs. */
const MIN_TTL_MS = 60_000;

/** KEYS: the state. ARGV: fence, value, time to live or 0. Answers the newest fence: another than its own when refused. */
const SAVE = makeScript(`
local newest = redis.call('HGET', KEYS[1], 'fence')
if newest and tonumber(newest) > tonumber(ARGV[1]) then return newest end
redis.call('HSET', KEYS[1], 'fence', ARGV[1], 'value', ARGV[2])
if ARGV[3] ~= '0' then redis.call('PEXPIRE', KEYS[1], ARGV[3]) else redis.call('PERSIST', KEYS[1]) end
return ARGV[1]
`);

const LOAD = makeScript(`return redis.call('HMGET', KEYS[1], 'fence', 'value')`);
const DELETE = makeScript(`return redis.call('DEL', KEYS[1])`);

/**
 * The state of chats in Redis or Valkey, each write held against the fence of the last. From its first call on its
 * connection keeps the process alive, until `close()`.
 */
export class RedisStateStore implements StateStore {
  readonly #connection: SharedConnection;
  readonly #prefix: string;
  readonly #ttlMs: number;

  /** @throws ConfigError naming the option that cannot work */
  constructor(options: RedisStateStoreOptions) {
    checkOptionNames('RedisStateStore', options, NAMES);
    const { client, cluster, timeoutMs = 2_000, tls, url } = options;
    const wanted: ConnectionOptions = { url, client, cluster, tls, timeoutMs, connectTimeoutMs: 2 * timeoutMs };
    checkConnectionOptions(wanted);
    if (!(timeoutMs > 0)) throw new ConfigError('timeoutMs: expected a number of milliseconds above 0.');
    this.#ttlMs = checkTtl(options.ttlMs);
    this.#prefix = `{${checkNamespace(options.namespace)}:state:`;
    this.#connection = new SharedConnection(() => openConnection(wanted));
  }

  async load(key: string): Promise<StoredState | null> {
    checkStateKey(key);
    const [fence, value] = (await (await this.#open()).evalsha(LOAD, [this.#keyOf(key)], [])) as (string | null)[];
    if (typeof fence !== 'string' || typeof value !== 'string') return null;
    return { value: JSON.parse(fromWire(value)) as unknown, fence: Number(fence) };
  }

  async save(key: string, value: unknown, fence: number): Promise<void> {
    const text = toWire(checkStateWrite(key, value, fence));
    const connection = await this.#open();
    const newest = Number(await connection.evalsha(SAVE, [this.#keyOf(key)], [fence, text, this.#ttlMs]));
    if (newest !== fence) throw new StaleFenceError(fence, newest);
  }

  async delete(key: string): Promise<void> {
    checkStateKey(key);
    await (await this.#open()).evalsha(DELETE, [this.#keyOf(key)], []);
  }

  /** Closes what it opened. A later call opens it again. */
  close(): Promise<void> {
    return this.#connection.release(this);
  }

  #open(): Promise<Connection> {
    return this.#connection.get(this);
  }

  #keyOf(key: string): string {
    // The key is all of the hash tag: states are spread over a Cluster.
    return `${this.#prefix}${toWire(key)}}`;
  }
}

function checkTtl(ttlMs: unknown): number {
  if (ttlMs === undefined) return 0;
  if (Number.isSafeInteger(ttlMs) && (ttlMs as number) >= MIN_TTL_MS) return ttlMs as number;
  throw new ConfigError(`ttlMs: expected a whole number of milliseconds from ${MIN_TTL_MS} up, or nothing.`);
}
