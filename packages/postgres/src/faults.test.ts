import { test } from 'vitest';
import { isLong, nowMs, pause, pgBouncer, TestPooler, TestServer } from '../testing/lab.js';
import { expectSound, LIMITS, places, started } from '../testing/sound.js';

const OURS = "backend_type = 'client backend' and pid <> pg_backend_pid()";

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
