import { ConfigError } from '@botmesh/core/spi';
import { type IoredisClient, type IoredisCluster, IoredisClusterDialer, IoredisDialer } from './ioredis.js';
import type { Dialer, DialSettings } from './link.js';
import { type NodeRedisClient, type NodeRedisCluster, NodeRedisClusterDialer, NodeRedisDialer } from './node-redis.js';

const EXPECTED =
  'Expected a client of ioredis (new Redis, new Cluster), of redis (createClient, createCluster), or of iovalkey';

/**
 * Takes over the settings of a user's client, told by its shape.
 *
 * @throws ConfigError naming what it is, or the setting that cannot be taken over
 */
export function dialerOf(client: unknown, settings: DialSettings): Dialer {
  if (typeof client !== 'object' || client === null) {
    throw new ConfigError(`client is ${client === null ? 'null' : typeof client}. ${EXPECTED}.`);
  }
  if (isIoredisCluster(client)) {
    refusePrefix(client.options.keyPrefix ?? (client.options.redisOptions as Prefixed | undefined)?.keyPrefix);
    return new IoredisClusterDialer(client, settings);
  }
  if (isIoredis(client)) {
    refusePrefix(client.options.keyPrefix);
    return new IoredisDialer(client, settings);
  }
  if (isNodeRedisCluster(client)) {
    refusePrefix(client._options.keyPrefix ?? client._options.defaults?.keyPrefix);
    return new NodeRedisClusterDialer(client, settings);
  }
  if (isNodeRedis(client)) {
    refusePrefix(client.options?.keyPrefix);
    return new NodeRedisDialer(client, settings);
  }
  throw new ConfigError(`client is ${nameOf(client)}. ${EXPECTED}.`);
}

interface Prefixed {
  readonly keyPrefix?: unknown;
}

function refusePrefix(prefix: unknown): void {
  if (prefix === undefined || prefix === '') return;
  throw new ConfigError(
    'client has a keyPrefix, which would not reach the keys that scripts make and the channels. Pass a client without one, and a namespace to keep meshes apart.',
  );
}

function isIoredis(client: object): client is IoredisClient {
  return has(client, 'call', 'duplicate', 'connect', 'disconnect') && 'status' in client && 'options' in client;
}

function isIoredisCluster(client: object): client is IoredisCluster {
  return has(client, 'call', 'duplicate', 'nodes') && 'startupNodes' in client && 'options' in client;
}

function isNodeRedis(client: object): client is NodeRedisClient {
  // A Sentinel client and a pool have most of these as well, and no connection of their own to subscribe on.
  if (has(client, 'acquire') || has(client, 'execute')) return false;
  return has(client, 'sendCommand', 'duplicate', 'destroy', 'subscribe', 'sSubscribe') && 'isReady' in client;
}

function isNodeRedisCluster(client: object): client is NodeRedisCluster {
  return has(client, 'sendCommand', 'duplicate', 'destroy', 'nodeClient') && '_options' in client;
}

function has(client: object, ...methods: readonly string[]): boolean {
  return methods.every((name) => typeof (client as Record<string, unknown>)[name] === 'function');
}

function nameOf(client: object): string {
  const name = client.constructor?.name;
  if (has(client, 'acquire') && has(client, 'sendCommand')) {
    return "node-redis's Sentinel client or pool, which this package does not take (for Sentinel, use ioredis)";
  }
  return name === undefined || name === 'Object' ? 'an object that is no client' : `a ${name}`;
}
