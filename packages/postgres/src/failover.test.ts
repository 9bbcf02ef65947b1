import { checkHistory } from '@botmesh/core/testing';
import { expect, test } from 'vitest';
import { type Fleet, nowMs, pause, TestProxy, TestServer, until, urlBy } from '../testing/lab.js';
import { expectSound, LIMITS, places, RECOVERY_MS, started } from '../testing/sound.js';

/** A primary with a standby, the ways of the replicas to them, and what runs between the two. */
async function pair(primary: TestServer): Promise<{ clients: TestProxy; replication: TestProxy; standby: TestServer }> {
  const clients = await TestProxy.start(primary.port);
  const replication = await TestProxy.start(primary.port);
  const standby = await primary.standby({}, replication.port);
  return { clients, replication, standby };
}

function turn(clients: TestProxy, fleet: Fleet, to: TestServer, keptUntil: number): void {
  fleet.lostData(keptUntil);
  clients.turnTo(to.port);
  clients.reset();
}

test.concurrent('a standby that is promoted without the last moments tells who lost what', LIMITS, async () => {
  using _place = await places.take();
  await using primary = await TestServer.start();
  const { clients, replication, standby } = await pair(primary);
  await using _clients = clients;
  await using _replication = replication;
  await using _standby = standby;
  // On one chat some wait at any time.
  await using fleet = await started(urlBy(clients), { keys: 1 });

  await primary.ask('create table marks (late boolean)');
  const there = async () => (await standby.ask("select to_regclass('marks') is not null"))[0]?.[0] === true;
  await until('the standby follows', there);
  replication.set('cut');
  // What it has not got yet: what no disk has yet, a second at most.
  const keptUntil = nowMs() - 1000;
  const before = fleet.grants;
  // Whoever waits then has taken its place since.
  await until('each lane had two turns', () => fleet.grants > before + 12);
  await primary.ask('insert into marks values (true)');
  await primary.kill();
  replication.reset();
  await standby.promote();
  turn(clients, fleet, standby, keptUntil);

  expect(await standby.ask('select late from marks')).toEqual([]);
  expect((await expectSound(fleet)).lost).toBeGreaterThan(0);
});

test.concurrent(
  'a standby that is promoted beside a frozen primary, which wakes again, keeps every promise',
  LIMITS,
  async () => {
    using _place = await places.take();
    await using primary = await TestServer.start();
    const { clients, replication, standby } = await pair(primary);
    await using _clients = clients;
    await using _replication = replication;
    await using _standby = standby;
    await using fleet = await started(urlBy(clients));

    const frozenAt = nowMs();
    await primary.freeze();
    await standby.promote();
    turn(clients, fleet, standby, frozenAt - 1000);
    primary.thaw();

    await expectSound(fleet);
  },
);

test.concurrent(
  'two primaries at once, each reached by one replica, make two holders, and are found out',
  LIMITS,
  async () => {
    using _place = await places.take();
    await using primary = await TestServer.start();
    const { clients, replication, standby } = await pair(primary);
    await using _clients = clients;
    await using _replication = replication;
    await using _standby = standby;
    await using fleet = await started(primary.url(), { keys: 1 });
    await fleet.start({ by: 'pool', url: urlBy(clients) });

    await standby.promote();
    turn(clients, fleet, standby, nowMs() - 1000);

    const rules = () => checkHistory(fleet.events()).map(({ rule }) => rule);
    await until('two hold one chat', () => rules().includes('exclusion'), RECOVERY_MS);
  },
);

test.concurrent('a synchronous standby has all that steps waited for', LIMITS, async () => {
  using _place = await places.take();
  await using primary = await TestServer.start();
  const { clients, replication, standby } = await pair(primary);
  await using _clients = clients;
  await using _replication = replication;
  await using _standby = standby;
  await primary.ask("alter system set synchronous_standby_names = '*'");
  await primary.ask('select pg_reload_conf()');
  await using fleet = await started(urlBy(clients), { coordinator: { synchronousCommit: true } });

  await pause(500);
  await primary.kill();
  await standby.ask("alter system set synchronous_standby_names = ''");
  await standby.promote();
  clients.turnTo(standby.port);
  clients.reset();

  await expectSound(fleet);
});
