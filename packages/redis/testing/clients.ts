// Every client library that the package works with, and each of their two ways in.
import { Cluster, Redis } from 'ioredis';
import * as ioredis6 from 'ioredis6';
import * as iovalkey from 'iovalkey';
import * as redis6 from 'redis';
import * as redis5 from 'redis5';
import { ioredisLibrary, type Library, nodeRedisLibrary } from '../src/clients/libraries.js';

export interface TestClient {
  readonly name: string;
  /** For connections by URL. */
  readonly library: Library;
  /** A client such as a user makes, with the library's own settings. `close` must be called. */
  readonly make: (port: number, settings?: { username?: string; password?: string }) => UserClient;
  /** With settings of the library's own; it need not connect. */
  readonly makeWith: (settings: object) => Pick<UserClient, 'client' | 'close'>;
  readonly makeCluster: (ports: readonly number[]) => UserClient;
}

export interface UserClient {
  readonly client: unknown;
  /** Whether it can be used. */
  ping(): Promise<unknown>;
  close(): Promise<void>;
}

const HOST = '127.0.0.1';

function ofIoredis(name: string, module: unknown): TestClient {
  const library = module as { Redis: typeof Redis; Cluster: typeof Cluster };
  return {
    name,
    library: ioredisLibrary(module),
    make: (port, settings) => {
      const client = new library.Redis({ host: HOST, port, ...settings });
      client.on('error', () => {});
      return { client, ping: () => client.ping(), close: async () => client.disconnect() };
    },
    makeWith: (settings) => {
      const client = new library.Redis({ lazyConnect: true, ...settings });
      return { client, close: async () => client.disconnect() };
    },
    makeCluster: (ports) => {
      const client = new library.Cluster(ports.map((port) => ({ host: HOST, port })));
      client.on('error', () => {});
      return { client, ping: () => client.ping(), close: async () => client.disconnect() };
    },
  };
}

function ofNodeRedis(name: string, module: unknown): TestClient {
  const library = module as typeof redis6;
  return {
    name,
    library: nodeRedisLibrary(module),
    make: (port, settings) => {
      const client = library.createClient({ socket: { host: HOST, port }, ...settings });
      client.on('error', () => {});
      const connected = client.connect();
      connected.catch(() => {});
      return {
        client,
        ping: async () => {
          await connected;
          return client.ping();
        },
        close: async () => {
          if (client.isOpen) client.destroy();
        },
      };
    },
    makeWith: (settings) => {
      const client = library.createClient(settings);
      return { client, close: async () => {} };
    },
    makeCluster: (ports) => {
      const client = library.createCluster({ rootNodes: ports.map((port) => ({ socket: { host: HOST, port } })) });
      client.on('error', () => {});
      const connected = client.connect();
      connected.catch(() => {});
      return {
        client,
        ping: async () => {
          await connected;
          return client.sendCommand('a', false, ['GET', 'a']);
        },
        close: async () => {
          if (client.isOpen) client.destroy();
        },
      };
    },
  };
}

export const testClients: readonly TestClient[] = [
  ofIoredis('ioredis 5', { Redis, Cluster }),
  ofIoredis('ioredis 6', ioredis6),
  ofNodeRedis('redis 5', redis5),
  ofNodeRedis('redis 6', redis6),
  ofIoredis('iovalkey', iovalkey),
];
