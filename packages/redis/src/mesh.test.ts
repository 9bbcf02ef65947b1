import { EventEmitter } from 'node:events';
import type { Adoption, BeatRequest, Op } from '@botmesh/core/spi';
import { afterEach, describe, expect, test } from 'vitest';
import { bear, ServerCluster, TestServer, type TestServerOptions, until } from '../testing/lab.js';
import { openConnection } from './clients/open-connection.js';
import { RedisCoordinator, type RedisCoordinatorOptions } from './index.js';
import { RedisStore } from './RedisStore.js';
import { SharedConnection } from './SharedConnection.js';

const LEASE_MS = 3_000;
const CONFIG = { format: 1, leaseMs: LEASE_MS, shards: 1 };

const running: { stop(): Promise<void> }[] = [];
const servers: AsyncDisposable[] = [];
afterEach(async () => {
  await Promise.allSettled(running.splice(0).map((each) => each.stop()));
  for (const server of servers.splice(0)) await server[Symbol.asyncDispose]();
});

/** A server whose mesh `botmesh` was there from the beginning. */
async function serve(options: TestServerOptions = {}): Promise<TestServer> {
  const server = await TestServer.start(options);
  servers.push(server);
  await bear(server, 'botmesh', 0);
  return server;
}

async function start(options: RedisCoordinatorOptions): Promise<RedisCoordinator> {
  const coordinator = new RedisCoordinator({ leaseMs: LEASE_MS, ...options });
  running.push(coordinator);
  await coordinator.start();
  return coordinator;
}

function storeOn(url: string): RedisStore {
  const connection = new SharedConnection(() => openConnection({ url, timeoutMs: 5_000, connectTimeoutMs: 5_000 }));
  const store = new RedisStore({ connection, namespace: 'botmesh', shard: 0 });
  running.push({ stop: () => store.close() });
  return store;
}

/** One start of a replica, step by step. */
async function step(url: string): Promise<{ store: RedisStore; epoch: number }> {
  const store = storeOn(url);
  const request = { replicaId: 'a', instance: 'i', firstEpoch: 0, config: CONFIG, adopts: true, seen: 0 };
  const answer = await store.join(request);
  if (answer.kind !== 'joined') throw new Error(`It was ${answer.kind}.`);
  return { store, epoch: answer.epoch };
}

function beatOf(epoch: number): BeatRequest {
  const rest = { era: 0, watchedMs: 0, seen: 0, adopts: true, answered: 0, heard: 0, view: [] };
  return { epoch, instance: 'i', beat: 1, ...rest };
}

describe('a mesh on one server', () => {
  test('a chat goes from replica to replica, and what was accepted from one that stops', async () => {
    const { url } = await serve();
    const [a, b] = [await start({ url, replicaId: 'a' }), await start({ url, replicaId: 'b' })];
    const adopted: Pick<Adoption, 'body' | 'attempt'>[] = [];
    b.onAdopted(({ body, attempt, ticket }) => {
      adopted.push({ body, attempt });
      void b.acquireTurn(ticket).then((turn) => turn.release());
    });
    const first = await a.acquireTurn(await a.reserve('chat'));
    const waiting = b.acquireTurn(await b.reserve('chat'));
    await a.accept('chat', { id: 'm', body: 'hello' });

    await first.release();
    await (await waiting).release();
    await a.stop();

    await until('the message is adopted', () => adopted.length === 1);
    expect(adopted).toEqual([{ body: 'hello', attempt: 1 }]);
  });

  test('idle chats leave nothing behind but the mesh and the ids of messages', async () => {
    const server = await serve();
    const coordinator = await start({ url: server.url });
    for (let n = 0; n < 20; n++) {
      const turn = await coordinator.acquireTurn(await coordinator.reserve(`chat ${n % 7}`));
      await turn.release();
      const message = await coordinator.accept(`chat ${n % 7}`, { id: `m${n}`, body: 'text' });
      await (await coordinator.acquireTurn(message!)).release();
    }
    await coordinator.stop();

    const keys = (await server.ask('KEYS', '*')) as string[];
    expect(keys.sort()).toEqual(['{botmesh:0}:finished', '{botmesh:0}:ids', '{botmesh:0}:mesh']);
    expect(await server.ask('HLEN', '{botmesh:0}:mesh')).toBe(2);
    expect(await server.ask('HLEN', '{botmesh:0}:ids')).toBe(20);
  });

  test('no key of the mesh ever expires', async () => {
    const server = await serve();
    const coordinator = await start({ url: server.url });
    await coordinator.reserve('chat');
    await coordinator.accept('chat', { id: 'm', body: 'text' });

    const keys = (await server.ask('KEYS', '*')) as string[];
    const lives = await Promise.all(keys.map((key) => server.ask('TTL', key)));

    expect(keys.length).toBeGreaterThan(4);
    expect(new Set(lives)).toEqual(new Set([-1]));
  });

  test('a server that forgot the script between any two steps is told it again', async () => {
    const server = await serve();
    const coordinator = await start({ url: server.url });
    for (let n = 0; n < 5; n++) {
      await server.ask('SCRIPT', 'FLUSH');
      const ticket = await coordinator.reserve('chat');
      await server.ask('SCRIPT', 'FLUSH');
      await (await coordinator.acquireTurn(ticket)).release();
    }
  });

  test('keys, ids and texts with lone surrogates and marks arrive as they were', async () => {
    const { url } = await serve();
    const { store, epoch } = await step(url);
    const texts = ['\ud800', '\udc00', '\u0001', '\u0001"\\ud800"', '"\\ud800"', 'a\u0000b', '', ' ', '\n', '🔑'];
    const ops = texts.map((text) => {
      return { op: 'accept', key: text, id: text, body: text, maxAttempts: 5, dedupeMs: 1000 } as const;
    });
    const taken = await store.apply({ epoch, instance: 'i', batch: 1, ops });
    if (taken.kind !== 'applied') throw new Error(taken.kind);
    const returns = texts.map((key, at) => {
      return { op: 'release', key, seq: taken.results[at]!.seq, how: 'return' } as const;
    });

    const returned = await store.apply({ epoch, instance: 'i', batch: 2, ops: returns });

    if (returned.kind !== 'applied') throw new Error(returned.kind);
    const back = returned.news.adopted.map(({ key, id, body }) => ({ key, id, body }));
    expect(back).toEqual(texts.map((text) => ({ key: text, id: text, body: text })));
  });

  test('a full server takes heartbeats and releases, refuses other batches whole, and takes them when there is room again', async () => {
    const server = await serve({ config: ['maxmemory-policy noeviction'] });
    const { store, epoch } = await step(server.url);
    const apply = (batch: number, ...ops: Op[]) => store.apply({ epoch, instance: 'i', batch, ops });
    const held = await apply(1, { op: 'reserve', key: 'held' });
    if (held.kind !== 'applied') throw new Error(held.kind);
    const reserves = ['a', 'b', 'c'].map((key) => ({ op: 'reserve', key }) as const);
    await server.ask('CONFIG', 'SET', 'maxmemory', '1');

    const released = await apply(2, { op: 'release', key: 'held', seq: held.results[0]!.seq, how: 'done' });
    await expect(apply(3, ...reserves)).rejects.toMatchObject({ code: 'unavailable' });
    const alive = await store.beat({ ...beatOf(epoch), answered: 2 });
    await server.ask('CONFIG', 'SET', 'maxmemory', '0');
    const { queues } = await store.inspect();
    const answer = await apply(3, ...reserves);

    expect([released.kind, alive.kind, queues]).toEqual(['applied', 'alive', []]);
    expect(answer.kind === 'applied' && answer.results.map((taken) => taken!.fence > 0)).toEqual([true, true, true]);
  });

  test('where memory is full, releases go past a message that waits to be taken in, which is taken in when there is room', async () => {
    const server = await serve({ config: ['maxmemory-policy noeviction'] });
    const { url } = server;
    const [a, b] = [await start({ url, replicaId: 'a' }), await start({ url, replicaId: 'b' })];
    const turns = await Promise.all(['x', 'y', 'z'].map(async (key) => a.acquireTurn(await a.reserve(key))));
    const done = await a.acquireTurn((await a.accept('x2', { id: '1', body: 'text' }))!);
    const waiting = await b.reserve('x');
    await server.ask('CONFIG', 'SET', 'maxmemory', '1');
    let isAccepted = false;
    const accepted = a.accept('w', { id: '2', body: 'text' }).then((ticket) => {
      isAccepted = true;
      return ticket;
    });
    await until('it was refused', async () =>
      /errorstat_OOM:count=[1-9]/.test(String(await server.ask('INFO', 'errorstats'))),
    );

    await Promise.all([...turns, done].map((turn) => turn.release()));
    await (await b.acquireTurn(waiting, { timeoutMs: 5_000 })).release();
    const { queues } = await storeOn(url).inspect();
    const wasAccepted = isAccepted;
    await server.ask('CONFIG', 'SET', 'maxmemory', '0');
    await (await a.acquireTurn((await accepted)!, { timeoutMs: 5_000 })).release();

    expect({ queues, wasAccepted }).toEqual({ queues: [], wasAccepted: false });
  });

  test('a full server takes the release of what is not there', async () => {
    const server = await serve({ config: ['maxmemory-policy noeviction'] });
    const { store, epoch } = await step(server.url);
    await server.ask('CONFIG', 'SET', 'maxmemory', '1');

    const ops: Op[] = [{ op: 'release', key: 'k', seq: 1, how: 'done' }];
    const released = await store.apply({ epoch, instance: 'i', batch: 1, ops });

    expect(released).toMatchObject({ kind: 'applied', results: [null] });
  });

  test('an old copy that REPLICAOF puts into the running server is a new era', async () => {
    const [server, copy] = [await serve(), await TestServer.start()];
    servers.push(copy);
    const { store, epoch } = await step(server.url);
    const apply = (batch: number, key: string) =>
      store.apply({ epoch, instance: 'i', batch, ops: [{ op: 'reserve', key }] });
    await putInto(copy, server);
    await bear(server, 'botmesh', 0);
    const before = await apply(1, 'k');
    const process = String(await server.ask('INFO', 'server'));

    await putInto(server, copy);
    const after = await apply(1, 'k');

    if (before.kind !== 'applied' || after.kind !== 'applied') throw new Error(`${before.kind}, ${after.kind}`);
    expect(runOf(String(await server.ask('INFO', 'server')))).toBe(runOf(process));
    expect(before.results[0]?.fence).toBeGreaterThan(0);
    expect(after.results[0]?.fence).toBe(0);
    expect(after.era).not.toBe(before.era);
    expect((await store.inspect()).quarantined).toBe(true);
  });
});

function runOf(info: string): string | undefined {
  return /run_id:(\w+)/.exec(info)?.[1];
}

/** The data of `from`, in the place of what `server` had. */
async function putInto(server: TestServer, from: TestServer): Promise<void> {
  await server.ask('REPLICAOF', '127.0.0.1', String(from.port));
  await until('the data is there', async () =>
    String(await server.ask('INFO', 'replication')).includes('master_link_status:up'),
  );
  await server.ask('REPLICAOF', 'NO', 'ONE');
}

describe('a user who may not ask INFO', () => {
  const users = ['user default on nopass ~* &* +@all', 'user bot on >secret ~* &* +@all -info'];
  const login = (server: TestServer): string => server.url.replace('//', '//bot:secret@');

  test('is told so once, and notices a restart all the same', async () => {
    const server = await serve({ users, persistence: 'aof' });
    const warnings = new EventEmitter();
    const onWarning = (warning: Error & { code?: string }): void => void warnings.emit('warning', warning.code);
    const codes: unknown[] = [];
    warnings.on('warning', (code) => codes.push(code));
    process.on('warning', onWarning);
    const { store, epoch } = await step(login(server));
    const before = await store.apply({ epoch, instance: 'i', batch: 1, ops: [{ op: 'reserve', key: 'k' }] });
    await server.restart();

    const apply = () => store.apply({ epoch, instance: 'i', batch: 2, ops: [{ op: 'reserve', key: 'j' }] });
    await until('it is there again', () =>
      apply().then(
        () => true,
        () => false,
      ),
    );
    const after = await apply();

    process.off('warning', onWarning);
    if (before.kind !== 'applied' || after.kind !== 'applied') throw new Error(`${before.kind}, ${after.kind}`);
    expect(after.era).not.toBe(before.era);
    expect(after.results[0]?.fence).toBe(0);
    expect((await store.inspect()).quarantined).toBe(true);
    expect(codes.filter((code) => code === 'redis-info')).toHaveLength(1);
  });
});

describe('a mesh on a Cluster', () => {
  test('spreads its chats over the nodes, and hands over between replicas', async () => {
    const cluster = await ServerCluster.start();
    servers.push(cluster);
    const options = { url: cluster.servers[0]!.url, cluster: true, shards: 6 };
    const [a, b] = [await start({ ...options, replicaId: 'a' }), await start({ ...options, replicaId: 'b' })];
    const chats = Array.from({ length: 30 }, (_, n) => `chat ${n}`);

    const done = await Promise.all(
      chats.map(async (chat) => {
        const tickets = [await a.reserve(chat), await b.reserve(chat)];
        const first = await a.acquireTurn(tickets[0]!, { timeoutMs: 30_000 });
        await first.release();
        const second = await b.acquireTurn(tickets[1]!, { timeoutMs: 30_000 });
        await second.release();
        return second.fence > first.fence;
      }),
    );

    expect(done).toEqual(chats.map(() => true));
    const used = await Promise.all(cluster.servers.slice(0, 3).map((server) => server.ask('DBSIZE')));
    expect(used.every((keys) => Number(keys) > 0)).toBe(true);
  }, 60_000);
});
