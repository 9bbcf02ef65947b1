// Every way to the server that the suites are run on: each client library, and PgBouncer in between or not.
import type { ClientOptions } from '../src/clients/make-client.js';
import { type TestClient, testClients, urlClients } from './clients.js';
import { isLong, pgBouncer, TestPooler, TestServer } from './lab.js';
import { openServer } from './told.js';

export interface Way {
  readonly name: string;
  readonly by: 'pg' | 'postgres';
  readonly wakeUp: 'listen' | 'poll';
  readonly isPooled: boolean;
  /** Whether every change pays for it, and not only the long form. */
  readonly isShort: boolean;
}

const DIRECT_PG: Way = { name: 'pg', by: 'pg', wakeUp: 'listen', isPooled: false, isShort: true };

export const WAYS: readonly Way[] = [
  DIRECT_PG,
  { name: 'postgres behind PgBouncer, polling', by: 'postgres', wakeUp: 'poll', isPooled: true, isShort: true },
  { name: 'postgres', by: 'postgres', wakeUp: 'listen', isPooled: false, isShort: false },
  { name: 'pg, polling', by: 'pg', wakeUp: 'poll', isPooled: false, isShort: false },
  { name: 'pg behind PgBouncer, polling', by: 'pg', wakeUp: 'poll', isPooled: true, isShort: false },
  { name: 'pg behind PgBouncer, by listenUrl', by: 'pg', wakeUp: 'listen', isPooled: true, isShort: false },
  { name: 'postgres behind PgBouncer, by listenUrl', by: 'postgres', wakeUp: 'listen', isPooled: true, isShort: false },
];

/** Those to run on now: all of them in the long form. */
export function waysToRun(ways: readonly Way[] = WAYS): readonly Way[] {
  const hasPooler = pgBouncer() !== undefined;
  return ways.filter(({ isPooled, isShort }) => (isShort || isLong) && (hasPooler || !isPooled));
}

export interface Opened {
  readonly url: string;
  readonly options: Pick<ClientOptions, 'wakeUp' | 'listenUrl'>;
  readonly client: TestClient;
  /** What a user of the library would pass as `client`. */
  readonly instance: () => { readonly place: { readonly client: unknown }; close(): Promise<void> };
  readonly close: () => Promise<void>;
}

/** A server of one's own, as it is reached on this way. */
export async function openWay({ by, isPooled, wakeUp }: Way): Promise<Opened> {
  const client = urlClients.find(({ library }) => library.name === by)!;
  const { make } = testClients.find(({ library, name }) => library.name === by && !name.endsWith('url'))!;
  const instance = (url: string): ReturnType<Opened['instance']> => {
    const user = make(url);
    return { place: { client: user.place.client }, close: () => user.close() };
  };
  if (!isPooled) {
    const server = await openServer();
    return {
      url: server.url,
      close: () => server.close(),
      options: { wakeUp },
      client,
      instance: () => instance(server.url),
    };
  }
  const server = await TestServer.start({ config: ['max_connections = 300'] });
  const pooler = await TestPooler.start(server.port, ['default_pool_size = 40']);
  const url = pooler.url();
  return {
    url,
    options: { wakeUp, ...(wakeUp === 'listen' && { listenUrl: server.url() }) },
    client,
    instance: () => instance(url),
    close: async () => {
      await pooler[Symbol.asyncDispose]();
      await server[Symbol.asyncDispose]();
    },
  };
}
