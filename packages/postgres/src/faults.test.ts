import { test } from 'vitest';
import { type Connect, Fleet, isLong, nowMs, pause, TestServer } from '../testing/lab.js';
import { expectSound, LEASE_MS, LIMITS, places, RECOVERY_MS, SEED } from '../testing/sound.js';

test.concurrent('connections that are ended all the time, at any point, cost no promise', LIMITS, async () => {
  using _place = await places.take();
  await using server = await TestServer.start();
  await using fleet = new Fleet({ backend: 'postgres', seed: SEED, leaseMs: LEASE_MS });
  const ways: Connect['by'][] = ['pool', 'instance'];
  await Promise.all(ways.map((by) => fleet.start({ by, url: server.url() })));
  await fleet.isAlive(RECOVERY_MS);

  const endMs = nowMs() + (isLong ? 60_000 : 6000);
  while (nowMs() < endMs) {
    await endConnections(server);
    await pause(fleet.random() * 60);
  }

  await expectSound(fleet);
});

/** What an operator, a pooler or a time limit of the server does, to two at once. */
async function endConnections(server: TestServer): Promise<void> {
  await server.ask(
    `select pg_terminate_backend(pid) from (
       select pid from pg_stat_activity where backend_type = 'client backend' and pid <> pg_backend_pid() order by random() limit 2
     ) t`,
  );
}
