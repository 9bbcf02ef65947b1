import { checkHistory } from '@botmesh/core/testing';
import { describe, expect, test } from 'vitest';
import { FLEET_NAMESPACE, Fleet, nowMs, type Replica } from '../testing/Fleet.js';
import {
  anyProgram,
  isLong,
  NatsCluster,
  NatsServer,
  pause,
  serverPrograms,
  TestProxy,
  until,
} from '../testing/lab.js';
import { Desk } from '../testing/stores.js';
import { placeOf } from './namespace.js';

/** Long enough for processes that share two cores with others. */
const LEASE_MS = 3000;
/** A lost log grants nothing for two thirds of a lease and a little; a dead replica is skipped within a lease and a beat. */
const RECOVERY_MS = 30_000;
/** An election takes a few seconds, where the machine has time for it. */
const ELECTION_MS = 90_000;
const SEED = Number(process.env.BOTMESH_FAULTS_SEED ?? Math.floor(Math.random() * 1e6));
const programs = isLong ? serverPrograms() : [anyProgram()];
const PLACE = placeOf(FLEET_NAMESPACE, 0);

/** The mesh goes on, comes to rest, and has kept every promise. */
async function expectSound(fleet: Fleet): Promise<void> {
  await fleet.isAlive(RECOVERY_MS);
  await fleet.hasWorked(RECOVERY_MS);
  const { violations } = await fleet.finish(RECOVERY_MS);
  expect(violations, `seed ${SEED}`).toEqual([]);
}

/** As many fleets at once as two cores can run in time. */
const MOST_FLEETS = 2;
let fleets = 0;
const waiting: (() => void)[] = [];

/** Waits for a free place among the fleets. */
async function place(): Promise<Disposable> {
  if (fleets === MOST_FLEETS) await new Promise<void>((resolve) => waiting.push(resolve));
  else fleets += 1;
  return {
    [Symbol.dispose]: () => {
      const next = waiting.shift();
      if (next === undefined) fleets -= 1;
      else next();
    },
  };
}

async function started(urls: readonly string[], options: { replicas?: number } = {}): Promise<Fleet> {
  const fleet = new Fleet({ seed: SEED, leaseMs: LEASE_MS, ...options });
  await Promise.all([fleet.start(urls), fleet.start(urls)]);
  await fleet.isAlive(RECOVERY_MS);
  return fleet;
}

describe.concurrent.each(programs)('on $name', (program) => {
  const limits = { timeout: isLong ? 3_600_000 : 300_000 };

  test('replicas that are killed, frozen, cut off and slowed keep every promise', limits, async () => {
    using _place = await place();
    await using server = await NatsServer.start({ program });
    await using fleet = new Fleet({ seed: SEED, leaseMs: LEASE_MS });
    const proxies = new Map<Replica, TestProxy>();
    const join = async (): Promise<void> => {
      const proxy = await TestProxy.start(server.port);
      proxies.set(await fleet.start([proxy.url]), proxy);
    };
    await Promise.all([join(), join(), join()]);
    await fleet.isAlive(RECOVERY_MS);

    const endMs = nowMs() + (isLong ? 60_000 : 9000);
    while (nowMs() < endMs) await strike(fleet, proxies, server, join);

    await expectSound(fleet);
    for (const proxy of proxies.values()) await proxy[Symbol.asyncDispose]();
  });

  test('a server that is killed, and keeps its data, loses nothing', limits, async () => {
    using _place = await place();
    await using server = await NatsServer.start({ program });
    await using fleet = await started([server.url]);

    for (let round = 0; round < (isLong ? 5 : 2); round++) {
      await pause(500 + fleet.random() * 1000);
      await server.restart();
      await fleet.isAlive(RECOVERY_MS);
    }

    await expectSound(fleet);
  });

  test('a server that loses its data, wholly or in part, never makes two holders', limits, async () => {
    using _place = await place();
    await using server = await NatsServer.start({ program });
    await using fleet = await started([server.url]);

    const saved = await server.save();
    const savedAt = nowMs();
    await fleet.isAlive(RECOVERY_MS);
    await pause(500);
    await server.putBack(saved);
    fleet.lostData(savedAt - 2000);
    await fleet.isAlive(RECOVERY_MS);
    await server.restart({ wipe: true });
    fleet.lostData(0);

    await expectSound(fleet);
  });

  test(
    'a stream that is put back, deleted or purged under a running mesh never makes two holders',
    limits,
    async () => {
      using _place = await place();
      await using server = await NatsServer.start({ program });
      await using fleet = await started([server.url]);
      await using desk = await Desk.open(server.url);

      const putBack = await desk.copy(PLACE);
      const savedAt = nowMs();
      await pause(1000);
      await putBack();
      fleet.lostData(savedAt - 100);
      await fleet.isAlive(RECOVERY_MS);
      await desk.remove(PLACE);
      fleet.lostData(0);
      await fleet.isAlive(RECOVERY_MS);
      await desk.link.ask(`STREAM.PURGE.${PLACE.stream}`);
      await fleet.isAlive(RECOVERY_MS);

      await expectSound(fleet);
    },
  );

  test('a cluster whose leaders step down, are killed and come back keeps every promise', limits, async () => {
    using _place = await place();
    await using cluster = await NatsCluster.start({ program });
    await using fleet = await started(cluster.urls, { replicas: 3 });

    for (let round = 0; round < (isLong ? 4 : 1); round++) {
      await cluster.stepDown(PLACE.stream);
      await fleet.isAlive(ELECTION_MS);
      const leader = await cluster.leader(PLACE.stream);
      await leader.kill();
      await fleet.isAlive(ELECTION_MS);
      await leader.start();
      await cluster.isWell();
    }

    await expectSound(fleet);
  });
});

test.concurrent('a replica that believes in what it has lost is found out', { timeout: 300_000 }, async () => {
  using _place = await place();
  await using server = await NatsServer.start();
  await using fleet = new Fleet({ seed: SEED, leaseMs: 1500, keys: 1, forgets: true });
  await Promise.all([fleet.start([server.url]), fleet.start([server.url])]);
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
  server: NatsServer,
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
  ];
  await faults[Math.floor(random() * faults.length)]!();
  await pause(random() * 200);
}

async function cutFor(proxy: TestProxy, way: 'cut' | 'cut-up' | 'cut-down', ms: number): Promise<void> {
  proxy.set(way);
  await pause(ms);
  proxy.set('open');
}
