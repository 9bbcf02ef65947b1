import { afterAll, afterEach, describe, expect, test } from 'vitest';
import { type TestClient, testClients } from '../../testing/clients.js';
import { TestProxy, TestServer, type TestServerOptions, until } from '../../testing/lab.js';
import { checkServer, judgeInfo } from './check-server.js';
import type { Connection, ConnectionOptions } from './connection.js';
import { checkConnectionOptions, openConnection } from './open-connection.js';

const TIMES = { timeoutMs: 1000, connectTimeoutMs: 2000 };
const TAG = '{bot:0}';
/** What the README says a user needs. */
const RIGHTS = '~{bot:* &{bot:* +@read +@write +@scripting +@pubsub +@connection +info +time -@dangerous +info -script';

const open: { close(): Promise<void> }[] = [];
const servers: TestServer[] = [];
afterEach(async () => {
  for (const one of open.splice(0)) await one.close();
  for (const server of servers.splice(0)) await server[Symbol.asyncDispose]();
});

async function serve(options: TestServerOptions = {}): Promise<TestServer> {
  const server = await TestServer.start(options);
  servers.push(server);
  return server;
}

async function connect({ library }: TestClient, options: Partial<ConnectionOptions>): Promise<Connection> {
  const connection = await openConnection({ ...TIMES, ...options }, library);
  open.push(connection);
  return connection;
}

async function check(client: TestClient, options: Partial<ConnectionOptions>): Promise<readonly string[]> {
  return (await checkServer(await connect(client, options), [TAG])).map(({ code }) => code);
}

function withLogin(url: string, login: string, rest = ''): string {
  return `${url.replace('://', `://${login}@`)}${rest}`;
}

let node: Promise<TestServer> | undefined;
afterAll(async () => {
  await (await node)?.[Symbol.asyncDispose]();
});

/** A Cluster of one. It takes seconds to find itself whole. */
function wholeNode(): Promise<TestServer> {
  node ??= TestServer.start({ config: ['cluster-enabled yes'] }).then(async (server) => {
    await server.ask('CLUSTER', 'ADDSLOTSRANGE', '0', '16383');
    await until('it is whole', async () => /cluster_state:ok/.test(String(await server.ask('CLUSTER', 'INFO'))));
    return server;
  });
  return node;
}

async function connections(server: TestServer): Promise<number> {
  return (
    String(await server.ask('CLIENT', 'LIST'))
      .trim()
      .split('\n').length - 1
  );
}

describe.each(testClients)('$name', (client) => {
  test('a fit server is taken, by a user with the least rights, over TLS', async () => {
    const server = await serve({ tls: true, persistence: 'aof', users: [`user bot on >se:cr@t ${RIGHTS}`] });
    const tls = { ca: server.certificates!.ca };

    const warnings = await check(client, { url: withLogin(server.url, 'bot:se%3Acr%40t', '/0'), tls });

    expect(warnings).toEqual([]);
  });

  test('a certificate that is not trusted, and TLS on one side only, are told of', async () => {
    const [withTls, plain] = [await serve({ tls: true }), await serve()];

    await expect(check(client, { url: withTls.url })).rejects.toMatchObject({ reason: 'certificate' });
    await expect(check(client, { url: plain.url.replace('redis', 'rediss') })).rejects.toMatchObject({
      message: expect.stringMatching(/TLS .*rediss:/),
    });
    await expect(
      check(client, { url: withTls.url.replace('rediss', 'redis'), connectTimeoutMs: 300 }),
    ).rejects.toMatchObject({
      code: 'unavailable',
    });
  });

  test('an address where nobody listens is told of at once', async () => {
    const server = await serve();
    await server.stop();

    const before = performance.now();
    await expect(check(client, { url: server.url })).rejects.toMatchObject({
      code: 'unavailable',
      message: expect.stringMatching(new RegExp(`Could not connect to 127.0.0.1:${server.port}: .*ECONNREFUSED`)),
    });
    expect(performance.now() - before).toBeLessThan(1500);
  });

  test('a server that is silent is given up after the connect timeout, and nothing stays open', async () => {
    const server = await serve();
    await using proxy = await TestProxy.start(server.port);
    proxy.set('cut');

    const before = performance.now();
    await expect(
      check(client, { url: `redis://127.0.0.1:${proxy.port}`, connectTimeoutMs: 300 }),
    ).rejects.toMatchObject({
      code: 'unavailable',
    });
    expect(performance.now() - before).toBeLessThan(2500);

    proxy.set('open');
    await until('nothing is open', () => proxy.connections === 0);
  });

  test('a refused login, and a missing one, say so without the password', async () => {
    const server = await serve({ users: [`user bot on >secret ${RIGHTS}`, 'user default off'] });

    const wrong = await check(client, { url: withLogin(server.url, 'bot:hunter2') }).catch((error: unknown) => error);
    expect(wrong).toMatchObject({ code: 'config', reason: 'login' });
    expect(String(wrong)).not.toContain('hunter2');
    await expect(check(client, { url: server.url })).rejects.toMatchObject({ code: 'config', reason: 'login' });
  });

  test('a database that is not there is told of, and not replaced by another one', async () => {
    const server = await serve({ config: ['databases 2'] });
    const one = await connect(client, { url: `${server.url}/1` });
    await one.command(['SET', 'a', '1']);

    await expect(check(client, { url: `${server.url}/2` })).rejects.toMatchObject({
      code: 'config',
      reason: 'database',
    });
    expect(await server.ask('GET', 'a')).toBeNull();
  });

  test('a user who lacks a right is told of', async () => {
    const lacks = ['-@scripting', '-publish', '-subscribe', 'resetkeys ~other', 'resetchannels &other'];
    const server = await serve({ users: lacks.map((lack, n) => `user bot${n} on >secret ${RIGHTS} ${lack}`) });

    for (const n of lacks.keys()) {
      await expect(check(client, { url: withLogin(server.url, `bot${n}:secret`) }), lacks[n]).rejects.toMatchObject({
        code: 'config',
        reason: 'rights',
        message: expect.stringContaining('README'),
      });
    }
  });

  test('a user without the right to INFO is served quietly', async () => {
    const server = await serve({
      users: [`user bot on >secret ${RIGHTS} -info`],
      config: ['maxmemory-policy allkeys-lru'],
    });

    expect(await check(client, { url: withLogin(server.url, 'bot:secret') })).toEqual([]);
  });

  test('a replica is not written to, and is told of', async () => {
    const primary = await serve();
    const replica = await serve({ config: [`replicaof 127.0.0.1 ${primary.port}`] });

    await expect(check(client, { url: replica.url })).rejects.toMatchObject({
      code: 'unavailable',
      message: expect.stringContaining('READONLY: it is a replica'),
    });
  });

  test('a node of a Cluster given as a single server is told of, and the reverse', async () => {
    const node = await wholeNode();
    const single = await serve();

    await expect(check(client, { url: node.url })).rejects.toMatchObject({ code: 'config', reason: 'cluster' });
    // In a Cluster of Valkey 9 there can be more databases; this one is not there.
    await expect(check(client, { url: `${node.url}/1` })).rejects.toMatchObject({
      code: 'config',
      reason: expect.stringMatching(/cluster|database/),
    });
    await expect(check(client, { url: single.url, cluster: true })).rejects.toMatchObject({
      code: 'config',
      reason: 'standalone',
    });
    await until('nothing is open', async () => (await connections(single)) === 0);
  });

  test("a client's login and database are taken over", async () => {
    const server = await serve({
      users: [`user bot on >secret ${RIGHTS} ~a`, 'user default off', 'user lab on >lab ~* &* +@all'],
    });
    const user = client.make(server.port, { username: 'bot', password: 'secret' });
    open.push(user);

    const connection = await connect(client, { client: user.client });

    expect(await connection.command(['GET', 'a'])).toBeNull();
  });
});

// C-73
test('what weakens a promise is warned of', async () => {
  const [first] = testClients as [TestClient];
  const server = await serve({
    config: ['maxmemory 100mb', 'maxmemory-policy allkeys-lru', 'repl-diskless-sync-delay 0'],
  });
  await serve({ config: [`replicaof 127.0.0.1 ${server.port}`] });
  await until('it has a replica', async () =>
    /connected_slaves:1/.test(String(await server.ask('INFO', 'replication'))),
  );

  expect(await check(first, { url: server.url })).toEqual(['evicts', 'forgets', 'splits']);
  await server.ask('CONFIG', 'SET', 'maxmemory-policy', 'noeviction');
  await server.ask('CONFIG', 'SET', 'appendonly', 'yes');
  await server.ask('CONFIG', 'SET', 'min-replicas-to-write', '1');
  await until('it counts its replica', async () => /min_slaves_good_slaves:1/.test(String(await server.ask('INFO'))));
  expect(await check(first, { url: server.url })).toEqual([]);
});

test('old servers are refused by name', () => {
  const info = (version: string) => `redis_version:${version}\r\nredis_mode:standalone\r\n`;
  const single = { where: 'here', isCluster: false };

  expect(() => judgeInfo(single, info('6.0.16'))).toThrow(/here is Redis 6.0.16. Expected Redis 6.2/);
  expect(() => judgeInfo({ ...single, isCluster: true }, info('6.2.0'))).toThrow(/7.0 or later/);
  expect(judgeInfo(single, info('6.2.0'))).toEqual([]);
  expect(judgeInfo(single, '')).toEqual([]);
});

test.each([
  [{}, /neither url nor client/],
  [{ url: 'redis://a', client: {} }, /both url and client/],
  [{ url: 'http://a' }, /scheme 'http:/],
  [{ url: 'not a url: secret' }, /string of 17 characters/],
  [{ url: 'redis://' }, /no host|no URL/],
  [{ url: 'redis://a/x' }, /path '\/x'/],
  [{ url: 'redis://a?db=1' }, /\?db/],
  [{ url: 'redis://:%@a' }, /bare '%'/],
  [{ url: 'redis://a', tls: {} }, /rediss:/],
  [{ url: 'redis://a/1', cluster: true }, /database 0 only/],
  [{ url: 'redis://a', cluster: 'yes' }, /cluster is a string. Expected true or false/],
  [{ url: 'redis://a', cluster: 1 }, /cluster is a number/],
  [{ url: 'redis://a', cluster: null }, /cluster is null/],
  [{ url: 'rediss://a', tls: true }, /tls is a boolean. Expected an object/],
  [{ client: 7 }, /client is number/],
  [{ client: null }, /client is null/],
  [{ client: {} }, /object that is no client/],
  [{ client: new Map() }, /a Map/],
])('options %j are refused by name', (options, message) => {
  expect(() => checkConnectionOptions({ ...TIMES, ...options } as ConnectionOptions)).toThrow(message);
});

test.each(testClients)('$name: a prefix of keys is refused by name', ({ makeWith }) => {
  const { client, close } = makeWith({ keyPrefix: 'x:' });
  open.push({ close });

  expect(() => checkConnectionOptions({ ...TIMES, client })).toThrow(/keyPrefix/);
});
