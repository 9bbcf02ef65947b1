import { ConfigError } from '@botmesh/core/spi';
import type { TlsOptions } from './connection.js';
import { type IoredisClient, type IoredisCluster, IoredisClusterDialer, IoredisDialer } from './ioredis.js';
import type { Dialer, DialSettings } from './link.js';
import { type NodeRedisClient, type NodeRedisCluster, NodeRedisClusterDialer, NodeRedisDialer } from './node-redis.js';
import type { Target } from './url.js';

export interface Place extends Target {
  readonly isCluster: boolean;
  readonly tls: TlsOptions | undefined;
}

/** Makes a dialer for a place out of a library. */
export type Library = (place: Place, settings: DialSettings) => Dialer;

interface IoredisModule {
  readonly Redis: new (options: object) => IoredisClient;
  readonly Cluster: new (nodes: readonly object[], options: object) => IoredisCluster;
}

interface NodeRedisModule {
  readonly createClient: (options: object) => NodeRedisClient;
  readonly createCluster: (options: object) => NodeRedisCluster;
}

const LIBRARIES = {
  ioredis: async () => ioredisLibrary(await import('ioredis')),
  redis: async () => nodeRedisLibrary(await import('redis')),
  iovalkey: async () => ioredisLibrary(await import('iovalkey')),
} satisfies Record<string, () => Promise<Library>>;

/** The first library that is installed. */
export async function findLibrary(): Promise<Library> {
  for (const [name, load] of Object.entries(LIBRARIES)) {
    try {
      return await load();
    } catch (error) {
      if (!isMissing(error, name)) throw error;
    }
  }
  throw new ConfigError(
    'url was given, and no client library is installed. Install one (npm install ioredis, or redis, or iovalkey), or pass a client of your own as client.',
  );
}

export function ioredisLibrary(module: unknown): Library {
  const { Cluster, Redis } = module as IoredisModule;
  return ({ host, port, username, password, database, isTls, isCluster, tls }, settings) => {
    const login = { username, password, ...(isTls ? { tls: { ...tls } } : {}) };
    if (!isCluster)
      return new IoredisDialer(new Redis({ host, port, db: database, ...login, lazyConnect: true }), settings);
    const cluster = new Cluster([{ host, port }], { redisOptions: login, lazyConnect: true });
    return new IoredisClusterDialer(cluster, settings);
  };
}

export function nodeRedisLibrary(module: unknown): Library {
  const { createClient, createCluster } = module as NodeRedisModule;
  return ({ host, port, username, password, database, isTls, isCluster, tls }, settings) => {
    const socket = isTls ? { tls: true, ...tls } : {};
    const login = { ...(username === undefined ? {} : { username }), ...(password === undefined ? {} : { password }) };
    if (!isCluster) {
      return new NodeRedisDialer(createClient({ ...login, database, socket: { host, port, ...socket } }), settings);
    }
    const defaults = { ...login, socket };
    const cluster = createCluster({ rootNodes: [{ socket: { host, port, ...socket } }], defaults });
    return new NodeRedisClusterDialer(cluster, settings);
  };
}

function isMissing(error: unknown, name: string): boolean {
  const { code, message } = error as NodeJS.ErrnoException;
  return code === 'ERR_MODULE_NOT_FOUND' && message.includes(`'${name}'`);
}
