import { randomUUID } from 'node:crypto';
import { stateConformance } from '@botmesh/core/testing';
import { connect, type NatsConnection } from '@nats-io/transport-node';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { NatsServer } from '../testing/lab.js';
import { NatsStateStore } from './index.js';

let server: NatsServer;
let client: NatsConnection;
beforeAll(async () => {
  server = await NatsServer.start();
  client = await connect({ servers: server.url, maxReconnectAttempts: -1 });
});
afterAll(async () => {
  await client.close();
  await server[Symbol.asyncDispose]();
});

const ways = [
  { name: 'a connection handed in', options: () => ({ client }) },
  { name: 'a url', options: () => ({ url: server.url }) },
];

describe.each(ways)('state by $name', ({ name, options }) => {
  const suite = stateConformance({
    name,
    async open() {
      const given = { ...options(), namespace: randomUUID() };
      const [store, other] = [new NatsStateStore(given), new NatsStateStore(given)];
      return {
        store,
        other,
        close: async () => {
          await Promise.all([store.close(), other.close()]);
        },
      };
    },
  });
  for (const { title, run, skip } of suite) test(title, { skip: skip !== undefined }, run);

  test('keys of any length and text are told apart', async () => {
    const store = new NatsStateStore({ ...options(), namespace: randomUUID() });
    const keys = ['\ud800', '\ud801', '\u0000', 'a.b', 'a*', '>', ' ', 'x'.repeat(5000), `${'x'.repeat(4999)}y`];
    for (const [n, key] of keys.entries()) await store.save(key, n, 1);

    for (const [n, key] of keys.entries()) expect(await store.load(key)).toEqual({ value: n, fence: 1 });
    await store.close();
  });
});

test('of saves that cross each other none is lost, and an older fence never wins', async () => {
  const namespace = randomUUID();
  const stores = [0, 1, 2, 3].map(() => new NatsStateStore({ client, namespace }));

  const saved = await Promise.all(
    Array.from({ length: 40 }, (_, n) =>
      stores[n % 4]!.save('k', n, n + 1).then(
        () => 'saved',
        (error: { code: string }) => error.code,
      ),
    ),
  );

  expect(saved.filter((outcome) => outcome !== 'saved' && outcome !== 'stale-fence')).toEqual([]);
  expect(await stores[0]!.load('k')).toEqual({ value: 39, fence: 40 });
});

test('state larger than a message of the server is refused by name', async () => {
  const store = new NatsStateStore({ client, namespace: randomUUID() });

  await expect(store.save('k', 'x'.repeat(1_100_000), 1)).rejects.toMatchObject({
    code: 'bad-input',
    message: expect.stringContaining('max_payload') as string,
  });
});

test('state with a time to live is kept by a stream that forgets, for all keys alike', async () => {
  const namespace = randomUUID();
  const store = new NatsStateStore({ client, namespace, ttlMs: 60_000 });
  await store.save('k', 1, 7);

  const info = await client.request(`$JS.API.STREAM.INFO.BOTMESH_${namespace}_state`, '{}');
  expect(info.json()).toMatchObject({ config: { max_age: 60e9, max_msgs_per_subject: 1 } });
  await expect(new NatsStateStore({ client, namespace }).load('k')).rejects.toMatchObject({
    code: 'config-mismatch',
    message: expect.stringContaining('max_age') as string,
  });
});

test('a server that is away rejects, and is used again when it is back', async () => {
  await using away = await NatsServer.start();
  const store = new NatsStateStore({ url: away.url, timeoutMs: 500 });
  await store.save('k', 1, 1);
  await away.kill();

  await expect(store.load('k')).rejects.toMatchObject({ code: 'unavailable' });

  await away.start();
  await expect.poll(() => store.load('k').catch(() => 'away'), { timeout: 10_000 }).toEqual({ value: 1, fence: 1 });
  await store.close();
});

test.each([
  [{ ttlMs: 5 }, /ttlMs/],
  [{ timeoutMs: -1 }, /timeoutMs/],
  [{ namespace: 'a.b' }, /namespace/],
  [{ url: 'http://a' }, /url/],
  [{ client: {} }, /either url or client/],
  [{ url: undefined, client: {} }, /no connection/],
  [{ replicas: 7 }, /replicas/],
  [{ tableName: 'x' }, /no option 'tableName'/],
])('options %j are refused by name', (options, message) => {
  expect(() => new NatsStateStore({ url: 'nats://a', ...options } as never)).toThrow(message);
});
