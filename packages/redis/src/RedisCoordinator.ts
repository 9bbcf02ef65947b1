import {
  COORDINATOR_OPTION_NAMES,
  ConfigError,
  type CoordinatorOptions,
  checkOptionNames,
  StoreCoordinator,
} from '@botmesh/core/spi';
import { checkServer } from './clients/check-server.js';
import type { Connection, ConnectionOptions, TlsOptions } from './clients/connection.js';
import { checkConnectionOptions, openConnection } from './clients/open-connection.js';
import { checkNamespace, tagOf } from './namespace.js';
import { RedisStore } from './RedisStore.js';
import { SharedConnection } from './SharedConnection.js';

export interface RedisCoordinatorOptions extends CoordinatorOptions {
  /** `redis://[user:password@]host[:port][/database]`; `rediss://` with TLS; `valkey://` and `valkeys://` likewise. */
  url?: string;
  /** A client of ioredis, node-redis or iovalkey, in place of `url`: its settings are used, not itself. Never closed. */
  client?: unknown;
  /** `url` is that of a node of a Cluster. Default false. */
  cluster?: boolean;
  /** What Node's `tls.connect` takes, for `rediss://`: `ca`, `cert`, `key`, `servername`. */
  tls?: TlsOptions;
  /** Replicas of one namespace are one mesh. Default `botmesh`. */
  namespace?: string;
  /**
   * Over how many slots of a Cluster the keys are spread. The same for all replicas. Each costs a heartbeat. Default 1,
   * which is right for one server and for Sentinel.
   */
  shards?: number;
}

const NAMES = {
  ...COORDINATOR_OPTION_NAMES,
  url: true,
  client: true,
  cluster: true,
  tls: true,
  namespace: true,
  shards: true,
} as const;

const MAX_SHARDS = 256;
const DEFAULT_LEASE_MS = 12_000;

/** A mesh of replicas on many hosts, over one Redis or Valkey: a server, a pair with failover, or a Cluster. */
export class RedisCoordinator extends StoreCoordinator {
  /** @throws ConfigError naming the option that cannot work */
  constructor(options: RedisCoordinatorOptions) {
    checkOptionNames('RedisCoordinator', options, NAMES);
    const wanted = connectionOptions(options);
    checkConnectionOptions(wanted);
    const namespace = checkNamespace(options.namespace);
    const shards = Array.from({ length: checkShards(options.shards) }, (_, shard) => shard);
    const tags = shards.map((shard) => tagOf(namespace, shard));
    const connection = new SharedConnection(() => openChecked(wanted, tags));
    const stores = shards.map((shard) => new RedisStore({ connection, namespace, shard }));
    super({ ...options, stores });
  }
}

/** Connects to a server that can carry the mesh. What weakens a promise there is told as a warning of the process. */
async function openChecked(options: ConnectionOptions, tags: readonly string[]): Promise<Connection> {
  const connection = await openConnection(options);
  try {
    for (const { code, message } of await checkServer(connection, tags)) {
      process.emitWarning(message, { type: 'BotmeshWarning', code: `redis-${code}` });
    }
    return connection;
  } catch (error) {
    await connection.close();
    throw error;
  }
}

/** A call is given up after a heartbeat: the engine makes it anew long before trust is over. */
function connectionOptions(options: RedisCoordinatorOptions): ConnectionOptions {
  const { client, cluster, leaseMs = DEFAULT_LEASE_MS, heartbeatMs = leaseMs / 6, tls, url } = options;
  return { url, client, cluster, tls, timeoutMs: heartbeatMs, connectTimeoutMs: leaseMs / 3 };
}

function checkShards(shards: unknown = 1): number {
  if (Number.isSafeInteger(shards) && (shards as number) >= 1 && (shards as number) <= MAX_SHARDS) {
    return shards as number;
  }
  throw new ConfigError(`shards: expected a whole number from 1 to ${MAX_SHARDS}.`);
}
