import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { bear, bearLog, bornServer, NatsServer, RedisServer } from '@botmesh/lab';

/** How a process reaches the backend. Plain data. */
export type Reach =
  | { readonly kind: 'sqlite'; readonly path: string }
  | { readonly kind: 'redis'; readonly url: string }
  | { readonly kind: 'postgres'; readonly url: string }
  | { readonly kind: 'nats'; readonly url: string };

export interface OpenBackend {
  readonly reach: Reach;
  close(): Promise<void>;
}

/** A backend that processes can share, empty at each opening. */
export interface Backend {
  readonly name: string;
  open(): Promise<OpenBackend>;
}

export const sqlite: Backend = {
  name: 'SQLite',
  async open() {
    const folder = mkdtempSync(join(tmpdir(), 'botmesh-mesh-'));
    return {
      reach: { kind: 'sqlite', path: join(folder, 'mesh.db') },
      close: async () => rmSync(folder, { recursive: true, force: true }),
    };
  },
};

export const redis: Backend = {
  name: 'Redis',
  async open() {
    const server = await RedisServer.start();
    // Known from the beginning: there is no former life of this server to wait out.
    await bear(server, 'botmesh', 0);
    return { reach: { kind: 'redis', url: server.url }, close: () => server[Symbol.asyncDispose]() };
  },
};

export const postgres: Backend = {
  name: 'Postgres',
  async open() {
    // Known from the beginning: there is no former life of this server to wait out.
    const { close, url } = await bornServer('botmesh', 0);
    return { reach: { kind: 'postgres', url }, close };
  },
};

export const nats: Backend = {
  name: 'NATS',
  async open() {
    const server = await NatsServer.start();
    // Known from the beginning: there is no former life of this server to wait out.
    await bearLog(server, 'botmesh', 0);
    return { reach: { kind: 'nats', url: server.url }, close: () => server[Symbol.asyncDispose]() };
  },
};
