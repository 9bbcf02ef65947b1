import { checkHistory } from '@botmesh/core/testing';
import { describe, expect, test } from 'vitest';
import {
  Fleet,
  isLong,
  nowMs,
  pause,
  pgBouncer,
  type Replica,
  TestPooler,
  TestProxy,
  TestServer,
  until,
  urlBy,
} from '../testing/lab.js';
import { expectSound, LEASE_MS, LIMITS, places, RECOVERY_MS, SEED, started } from '../testing/sound.js';

const OURS = "backend_type = 'client backend' and pid <> pg_backend_pid()";
const LISTENS = `${OURS} and query ~* '^(un)?listen'`;

describe.concurrent.each(['listen', 'poll'] as const)('replicas that %s', (wakeUp) => {
  test('killed, frozen, cut off and slowed, their connections ended, they keep every promise', LIMITS, async () => {
    using _place = await places.take();
    await using server = await TestServer.start();
    await using fleet = new Fleet({
      backend: 'postgres',
      seed: SEED,
      leaseMs: LEASE_MS,
      coordinator: { wakeUp },
      shards: wakeUp === 'poll' ? 2 : 1,
    });
    const proxies = new Map<Replica, TestProxy>();
    const join = async (): Promise<void> => {
      const proxy = await TestProxy.start(server.port);
      const by = fleet.random() < 0.5 ? 'pool' : 'instance';
      proxies.set(await fleet.start({ by, url: urlBy(proxy) }), proxy);
    };
    await Promise.all([join(), join(), join()]);
    await fleet.isAlive(RECOVERY_MS);

    const endMs = nowMs() + (isLong ? 60_000 : 9000);
    while (nowMs() < endMs) await strike(fleet, proxies, server, join);

    await expectSound(fleet);
    for (const proxy of proxies.values()) await proxy[Symbol.asyncDispose]();
  });
});

test.concurrent(
  'connections that are ended all the time, at any point of a step, cost no promise',
  LIMITS,
  async () => {
    using _place = await places.take();
    await using server = await TestServer.start();
    await using fleet = await started(server.url());
    await slowDown(server);

    const endMs = nowMs() + (isLong ? 60_000 : 6000);
    while (nowMs() < endMs) {
      await endConnections(server, OURS, 2);
      await pause(fleet.random() * 60);
    }

    await expectSound(fleet);
  },
);

/** Connections of servers that are young at any time, and fewer of them than of replicas. */
const RECYCLES = ['default_pool_size = 3', 'server_lifetime = 1', 'server_idle_timeout = 1'];

test
  .skipIf(pgBouncer() === undefined)
  .concurrent(
    'behind a pooler of transactions that recycles, loses and ends connections, and is killed, replicas keep every promise',
    LIMITS,
    async () => {
      using _place = await places.take();
      await using server = await TestServer.start();
      await using pooler = await TestPooler.start(server.port, RECYCLES);
      await using fleet = await started(pooler.url(), { coordinator: { wakeUp: 'poll', pollMs: 50 } });

      const endMs = nowMs() + (isLong ? 60_000 : 5000);
      while (nowMs() < endMs) {
        if (fleet.random() < 0.2) await pooler.restart();
        else await endConnections(server, OURS, 2);
        await pause(fleet.random() * 600);
      }

      await expectSound(fleet);
    },
  );

test.concurrent('a replica that believes in what it has lost is found out', LIMITS, async () => {
  using _place = await places.take();
  await using server = await TestServer.start();
  await using fleet = new Fleet({ backend: 'postgres', seed: SEED, leaseMs: 1500, keys: 1, forgets: true });
  const connect = { by: 'pool', url: server.url() } as const;
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
    () => endConnections(server, OURS, 100),
    () => endConnections(server, LISTENS, 100),
    () => lockRow(server, spanMs / 2),
    () => keepSnapshot(server, spanMs),
  ];
  await faults[Math.floor(random() * faults.length)]!();
  await pause(random() * 200);
}

/** Before and after each of its writes, and at its commit, a step lasts long enough to be ended there. */
async function slowDown(server: TestServer): Promise<void> {
  const slow = 'begin perform pg_sleep(random() * 0.004); return null; end';
  await server.ask(`create function slow() returns trigger language plpgsql as $$ ${slow} $$`);
  for (const table of ['mesh', 'replica', 'chat', 'entry', 'done']) {
    for (const when of ['before', 'after']) {
      const name = `slow_${when}_${table}`;
      await server.ask(
        `create trigger ${name} ${when} insert or update or delete on botmesh.${table} execute function slow()`,
      );
    }
  }
  await server.ask(`create constraint trigger slow_commit after insert or update on botmesh.chat
    deferrable initially deferred for each row execute function slow()`);
}

/** What an operator, a pooler or a time limit of the server does. */
async function endConnections(server: TestServer, which: string, most: number): Promise<void> {
  await server.ask(
    `select pg_terminate_backend(pid) from (select pid from pg_stat_activity where ${which} order by random() limit ${most}) t`,
  );
}

async function lockRow(server: TestServer, ms: number): Promise<void> {
  await server.ask('begin');
  await server.ask('select from botmesh.mesh for update');
  await pause(ms);
  await server.ask('rollback');
}

/** What a dump or a report does: versions of rows stay, and lie in the way. */
async function keepSnapshot(server: TestServer, ms: number): Promise<void> {
  await server.ask('begin isolation level repeatable read');
  await server.ask('select count(*) from botmesh.entry');
  await pause(ms);
  await server.ask('rollback');
}

async function cutFor(proxy: TestProxy, way: 'cut' | 'cut-up' | 'cut-down', ms: number): Promise<void> {
  proxy.set(way);
  await pause(ms);
  proxy.set('open');
}
