import {
  COORDINATOR_OPTION_NAMES,
  ConfigError,
  type CoordinatorOptions,
  checkOptionNames,
  StoreCoordinator,
} from '@botmesh/core/spi';
import type { WakeUp } from './clients/client.js';
import { makeClient } from './clients/make-client.js';
import { PostgresStore } from './PostgresStore.js';
import { SharedClient } from './SharedClient.js';
import { checkNamespace, checkSchema } from './schema.js';

export interface PostgresCoordinatorOptions extends CoordinatorOptions {
  /** `postgres://[user[:password]@]host[:port]/database`, with what the library takes behind a question mark. */
  url?: string;
  /** A Pool or Client of pg, or an instance of postgres, in place of `url`: its settings are used, not itself. Never closed. */
  client?: unknown;
  /** Where to listen for what other replicas did, when `url` leads to a pooler of transactions. Default: by `url`. */
  listenUrl?: string;
  /**
   * `listen` keeps one more connection, on which other replicas wake this one up. `poll` asks every `pollMs` while somebody
   * waits here: for where no connection may be kept, and for fleets of more than fifty. The same for all replicas. Default
   * `listen`.
   */
  wakeUp?: WakeUp;
  /** Default 250. */
  pollMs?: number;
  /** Replicas of one namespace are one mesh. Default `botmesh`. */
  namespace?: string;
  /** Where the tables and functions are. Default `botmesh`. */
  schema?: string;
  /** Whether `start` makes them, and brings older ones up, where it may. Default true. */
  migrate?: boolean;
  /**
   * Whether every step waits for the disk. Without it a crash of the server loses the last half second or so: of the
   * messages that were accepted in it, and of the places in line. No two replicas hold one chat in either case. Default
   * false.
   */
  synchronousCommit?: boolean;
  /** Over how many rows the steps are spread, each step locking one. The same for all replicas. Each costs a heartbeat. Default 1. */
  shards?: number;
}

const NAMES = {
  ...COORDINATOR_OPTION_NAMES,
  url: true,
  client: true,
  listenUrl: true,
  wakeUp: true,
  pollMs: true,
  namespace: true,
  schema: true,
  migrate: true,
  synchronousCommit: true,
  shards: true,
} as const;

const MAX_SHARDS = 256;
const DEFAULT_LEASE_MS = 12_000;
const DEFAULT_POLL_MS = 250;

/** A mesh of replicas on many hosts, over a PostgreSQL that is there already. */
export class PostgresCoordinator extends StoreCoordinator {
  /** @throws ConfigError naming the option that cannot work */
  constructor(options: PostgresCoordinatorOptions) {
    checkOptionNames('PostgresCoordinator', options, NAMES);
    const { leaseMs = DEFAULT_LEASE_MS, heartbeatMs = leaseMs / 6 } = options;
    const schema = checkSchema(options.schema);
    const namespace = checkNamespace(options.namespace);
    const pollMs = checkPoll(options.pollMs);
    const synchronousCommit = checkSync(options.synchronousCommit);
    const client = new SharedClient(
      makeClient({
        url: options.url,
        client: options.client,
        listenUrl: options.listenUrl,
        wakeUp: options.wakeUp,
        schema,
        migrate: options.migrate,
        // A call is given up after a heartbeat: the engine makes it anew long before trust is over.
        timeoutMs: heartbeatMs,
        connectTimeoutMs: leaseMs / 3,
      }),
    );
    // For a row the server waits twice, first to be next in line: so it answers before the call is given up, says what it
    // waited for, and the connection is kept.
    const lockMs = 0.4 * heartbeatMs;
    const stores = Array.from(
      { length: checkShards(options.shards) },
      (_, shard) => new PostgresStore({ client, schema, namespace, shard, synchronousCommit, pollMs, lockMs }),
    );
    super({ ...options, stores });
  }
}

function checkShards(shards: unknown = 1): number {
  if (Number.isSafeInteger(shards) && (shards as number) >= 1 && (shards as number) <= MAX_SHARDS) {
    return shards as number;
  }
  throw new ConfigError(`shards: expected a whole number from 1 to ${MAX_SHARDS}.`);
}

function checkPoll(pollMs: unknown = DEFAULT_POLL_MS): number {
  if (typeof pollMs === 'number' && pollMs >= 10 && pollMs <= 60_000) return pollMs;
  throw new ConfigError('pollMs: expected a number of milliseconds from 10 to 60,000.');
}

function checkSync(sync: unknown = false): boolean {
  if (typeof sync === 'boolean') return sync;
  throw new ConfigError(`synchronousCommit is ${typeof sync}. Expected true or false.`);
}
