import {
  COORDINATOR_OPTION_NAMES,
  ConfigError,
  type CoordinatorOptions,
  checkOptionNames,
  StoreCoordinator,
} from '@botmesh/core/spi';
import { Link } from './clients/Link.js';
import { SharedLink } from './clients/SharedLink.js';
import { linkOptions, type NatsPlace, PLACE_NAMES } from './connection.js';
import { NatsStore } from './NatsStore.js';
import { checkNamespace, placeOf } from './namespace.js';

export interface NatsCoordinatorOptions extends CoordinatorOptions, NatsPlace {
  /** Replicas of one namespace are one mesh. Default `botmesh`. */
  namespace?: string;
  /** Over how many streams the keys are spread. The same for all replicas. Each costs a heartbeat. Default 1. */
  shards?: number;
}

const NAMES = { ...COORDINATOR_OPTION_NAMES, ...PLACE_NAMES, namespace: true, shards: true } as const;

const MAX_SHARDS = 256;
const DEFAULT_LEASE_MS = 12_000;

/** A mesh of replicas on many hosts, over NATS JetStream: one server or a cluster, from 2.9 on. */
export class NatsCoordinator extends StoreCoordinator {
  /** @throws ConfigError naming the option that cannot work */
  constructor(options: NatsCoordinatorOptions) {
    checkOptionNames('NatsCoordinator', options, NAMES);
    const { leaseMs = DEFAULT_LEASE_MS, heartbeatMs = leaseMs / 6, maxBytes, replicas } = options;
    const namespace = checkNamespace(options.namespace);
    // A call is given up after a heartbeat: the engine makes it anew long before trust is over.
    const times = { timeoutMs: heartbeatMs, connectTimeoutMs: leaseMs / 3 };
    const wanted = linkOptions('NatsCoordinator', options, times);
    const link = new SharedLink(() => Link.open(wanted));
    const stores = Array.from({ length: checkShards(options.shards) }, (_, shard) => {
      const place = placeOf(namespace, shard);
      return new NatsStore({ link, place, wish: { replicas, maxBytes }, timeoutMs: heartbeatMs });
    });
    super({ ...options, stores });
  }
}

function checkShards(shards: unknown = 1): number {
  if (Number.isSafeInteger(shards) && (shards as number) >= 1 && (shards as number) <= MAX_SHARDS) {
    return shards as number;
  }
  throw new ConfigError(`shards: expected a whole number from 1 to ${MAX_SHARDS}.`);
}
