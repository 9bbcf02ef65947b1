import { RedisCoordinator } from '@botmesh/redis';
import type { OpenCoordinator } from './client.js';

const HOST = '127.0.0.1';

export type RedisConnect =
  | { readonly library: 'ioredis' | 'redis'; readonly port: number }
  | { readonly ports: readonly number[]; readonly natMap?: NatMap }
  | {
      readonly sentinels: readonly { host: string; port: number }[];
      readonly group: string;
      readonly natMap?: NatMap;
    };

/** By which address the replica reaches a server that others name by `host:port`. */
type NatMap = Record<string, { host: string; port: number }>;

export const open: OpenCoordinator<RedisConnect> = async (connect, options) => {
  const client = await clientOf(connect);
  client.on('error', () => {});
  return new RedisCoordinator({ ...options, client });
};

async function clientOf(connect: RedisConnect): Promise<{ on(event: 'error', listener: () => void): unknown }> {
  if ('library' in connect && connect.library === 'redis') {
    const { createClient } = await import('redis');
    return createClient({ socket: { host: HOST, port: connect.port } });
  }
  const { Cluster, Redis } = await import('ioredis');
  if ('sentinels' in connect) {
    const { group, natMap, sentinels } = connect;
    return new Redis({ sentinels: [...sentinels], name: group, lazyConnect: true, ...(natMap && { natMap }) });
  }
  if ('ports' in connect) {
    const { natMap, ports } = connect;
    const nodes = ports.map((port) => ({ host: HOST, port }));
    return new Cluster(nodes, { lazyConnect: true, ...(natMap && { natMap }) });
  }
  return new Redis({ host: HOST, port: connect.port, lazyConnect: true });
}
