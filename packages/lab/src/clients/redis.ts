import { RedisCoordinator } from '@botmesh/redis';
import type { OpenCoordinator } from './client.js';

const HOST = '127.0.0.1';

export type RedisConnect =
  | { readonly library: 'ioredis' | 'redis'; readonly port: number }
  | { readonly ports: readonly number[] }
  | { readonly sentinels: readonly { host: string; port: number }[]; readonly group: string };

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
  if ('sentinels' in connect)
    return new Redis({ sentinels: [...connect.sentinels], name: connect.group, lazyConnect: true });
  if ('ports' in connect)
    return new Cluster(
      connect.ports.map((port) => ({ host: HOST, port })),
      { lazyConnect: true },
    );
  return new Redis({ host: HOST, port: connect.port, lazyConnect: true });
}
