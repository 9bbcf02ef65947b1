import { checkHistory } from '@botmesh/core/testing';
import { describe, expect, test } from 'vitest';
import {
  Fleet,
  isLong,
  nowMs,
  Places,
  pause,
  type Replica,
  SENTINEL_GROUP,
  SentinelSet,
  ServerCluster,
  serverPrograms,
  TestProxy,
  TestServer,
  until,
} from '../testing/lab.js';

/** Long enough for processes that share two cores with others. */
const LEASE_MS = 3000;
/** A lost store grants nothing for two thirds of a lease and a little; a dead replica is skipped within a lease and a beat. */
const RECOVERY_MS = 30_000;
const SEED = Number(process.env.BOTMESH_FAULTS_SEED ?? Math.floor(Math.random() * 1e6));
const programs = isLong ? serverPrograms() : serverPrograms().slice(0, 1);

/** The mesh goes on, comes to rest, and has kept every promise. */
async function expectSound(fleet: Fleet): Promise<void> {
  await fleet.isAlive(RECOVERY_MS);
  await fleet.hasWorked(RECOVERY_MS);
  const { violations } = await fleet.finish(RECOVERY_MS);
  expect(violations, `seed ${SEED}`).toEqual([]);
}

/** As many fleets at once as two cores can run in time. */
const places = new Places(2);

describe.concurrent.each(programs)('on $name', (program) => {
  const limits = { timeout: isLong ? 3_600_000 : 300_000 };

  test('replicas that are killed, frozen, cut off and slowed keep every promise', limits, async () => {
    using _place = await places.take();
    await using server = await TestServer.start({ program, persistence: 'aof' });
    await using fleet = new Fleet({ backend: 'redis', seed: SEED, leaseMs: LEASE_MS });
    const proxies = new Map<Replica, TestProxy>();
    const join = async (): Promise<void> => {
      const proxy = await TestProxy.start(server.port);
      const library = fleet.random() < 0.5 ? 'ioredis' : 'redis';
      proxies.set(await fleet.start({ library, port: proxy.port }), proxy);
    };
    await Promise.all([join(), join(), join()]);
    await fleet.isAlive(RECOVERY_MS);

    const endMs = nowMs() + (isLong ? 60_000 : 9000);
    while (nowMs() < endMs) await strike(fleet, proxies, server, join);

    await expectSound(fleet);
    for (const proxy of proxies.values()) await proxy[Symbol.asyncDispose]();
  });

  test('a server that is killed, and keeps its data, loses nothing', limits, async () => {
    using _place = await places.take();
    await using server = await TestServer.start({ program, persistence: 'aof' });
    await using fleet = await started(server.port, 2);

    for (let round = 0; round < (isLong ? 5 : 2); round++) {
      await pause(500 + fleet.random() * 1000);
      await server.restart();
      await fleet.isAlive(RECOVERY_MS);
    }

    await expectSound(fleet);
  });

  test('a server that loses its data, wholly or in part, never makes two holders', limits, async () => {
    using _place = await places.take();
    await using server = await TestServer.start({ program, persistence: 'aof' });
    await using fleet = await started(server.port, 2);

    const saved = server.save();
    const savedAt = nowMs();
    await pause(1000);
    await server.putBack(saved);
    fleet.lostData(savedAt);
    await fleet.isAlive(RECOVERY_MS);
    await server.ask('FLUSHALL');
    fleet.lostData(0);
    await fleet.isAlive(RECOVERY_MS);
    await server.restart({ wipe: true });
    fleet.lostData(0);

    await expectSound(fleet);
  });

  test(
    'a failover by Sentinels, away from a frozen primary that wakes again, keeps every promise',
    limits,
    async () => {
      await using set = await SentinelSet.start({ program });
      await using fleet = new Fleet({ backend: 'redis', seed: SEED, leaseMs: LEASE_MS });
      const connect = { sentinels: set.sentinels, group: SENTINEL_GROUP };
      await Promise.all([fleet.start(connect), fleet.start(connect)]);
      await fleet.isAlive(RECOVERY_MS);

      const old = await set.primary();
      const frozenAt = nowMs();
      await old.freeze();
      await set.failedOver(old);
      fleet.lostData(frozenAt - 1000);
      old.thaw();
      await fleet.isAlive(RECOVERY_MS);

      await expectSound(fleet);
    },
  );

  // C-74
  test('a failover in a Cluster keeps every promise in every shard', limits, async () => {
    using _place = await places.take();
    await using cluster = await ServerCluster.start({ program });
    await using fleet = new Fleet({ backend: 'redis', seed: SEED, leaseMs: LEASE_MS, shards: 3 });
    const connect = { ports: cluster.ports };
    await Promise.all([fleet.start(connect), fleet.start(connect)]);
    await fleet.isAlive(RECOVERY_MS);

    const old = cluster.servers[0]!;
    const frozenAt = nowMs();
    await old.freeze();
    await pause(200);
    fleet.lostData(frozenAt - 1000);
    await cluster.failedOver(old);
    old.thaw();

    await expectSound(fleet);
  });
});

test.concurrent('a replica that believes in what it has lost is found out', { timeout: 300_000 }, async () => {
  using _place = await places.take();
  await using server = await TestServer.start();
  await using fleet = new Fleet({ backend: 'redis', seed: SEED, leaseMs: 1500, keys: 1, forgets: true });
  const connect = { library: 'ioredis', port: server.port } as const;
  await Promise.all([fleet.start(connect), fleet.start(connect)]);
  let holder: Replica | undefined;
  await until(
    'somebody holds the chat',
    () => {
      holder = fleet.holder();
      return holder !== undefined;
    },
    RECOVERY_MS,
  );

  await fleet.freezeFor(holder!, 5000);
  await pause(1000);

  expect(checkHistory(fleet.events()).map(({ rule }) => rule)).toContain('exclusion');
});

async function started(port: number, replicas: number): Promise<Fleet> {
  const fleet = new Fleet({ backend: 'redis', seed: SEED, leaseMs: LEASE_MS });
  const libraries = ['ioredis', 'redis'] as const;
  await Promise.all(libraries.slice(0, replicas).map((library) => fleet.start({ library, port })));
  await fleet.isAlive(RECOVERY_MS);
  return fleet;
}

/** One fault, drawn by chance, and the time until the next. */
async function strike(
  fleet: Fleet,
  proxies: Map<Replica, TestProxy>,
  server: TestServer,
  join: () => Promise<void>,
): Promise<void> {
  const { random } = fleet;
  // Mostly whoever holds a chat now: what happens to the others seldom matters.
  const holder = random() < 0.6 ? fleet.holder() : undefined;
  const victim = holder ?? fleet.replicas[Math.floor(random() * fleet.replicas.length)]!;
  const proxy = proxies.get(victim)!;
  const spanMs = 100 + random() * LEASE_MS;
  const faults: (() => Promise<unknown>)[] = [
    async () => {
      await fleet.kill(victim);
      await join();
    },
    () => fleet.freezeFor(victim, spanMs),
    () => cutFor(proxy, 'cut', spanMs),
    () => cutFor(proxy, 'cut-up', spanMs),
    () => cutFor(proxy, 'cut-down', spanMs),
    async () => proxy.reset(),
    async () => {
      proxy.delay(random() * 300);
      await pause(spanMs);
      proxy.delay(0);
    },
    async () => {
      await server.freeze();
      await pause(spanMs / 3);
      server.thaw();
    },
    () => server.ask('SCRIPT', 'FLUSH'),
    () => server.ask('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes'),
    () => server.ask('CLIENT', 'KILL', 'TYPE', 'pubsub'),
  ];
  await faults[Math.floor(random() * faults.length)]!();
  await pause(random() * 200);
}

async function cutFor(proxy: TestProxy, way: 'cut' | 'cut-up' | 'cut-down', ms: number): Promise<void> {
  proxy.set(way);
  await pause(ms);
  proxy.set('open');
}
