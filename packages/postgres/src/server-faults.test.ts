import { expect, test } from 'vitest';
import { isLong, MovingClock, nowMs, pause, TestServer, whyNoMovingClock } from '../testing/lab.js';
import { expectSound, LEASE_MS, LIMITS, places, RECOVERY_MS, started } from '../testing/sound.js';

/** Each of them ends a server out of order, and lets it come back with the data that was on its disk. */
const CRASHES = {
  'its host is lost': async (server: TestServer, whileDown: () => void) => {
    await server.kill();
    whileDown();
    await server.start();
  },
  'an operator stops it at once': async (server: TestServer, whileDown: () => void) => {
    await server.stopAtOnce();
    whileDown();
    await server.start();
  },
  'one of its processes is killed': async (server: TestServer, whileDown: () => void) => {
    await server.killBackend();
    // The quarantine lasts far longer than this takes.
    whileDown();
  },
} as const;

async function eraOf(server: TestServer): Promise<unknown> {
  return (await server.ask('select era from botmesh.mesh'))[0]?.[0];
}

test.concurrent('a server that is restarted in order loses nothing, and begins a new era', LIMITS, async () => {
  using _place = await places.take();
  await using server = await TestServer.start();
  await using fleet = await started(server.url());
  const era = await eraOf(server);

  for (let round = 0; round < (isLong ? 6 : 2); round++) {
    await pause(300 + fleet.random() * 500);
    await server.stop();
    await server.start();
    await fleet.isAlive(RECOVERY_MS);
  }

  // It cannot be told from a server whose files were put back, as the next test does.
  expect(await eraOf(server)).not.toBe(era);
  expect((await expectSound(fleet)).lost).toBe(0);
});

test.concurrent(
  'files that were copied while the server was stopped, and are put back later, make no two holders',
  LIMITS,
  async () => {
    using _place = await places.take();
    await using server = await TestServer.start();
    await using fleet = await started(server.url());
    await server.stop();
    const keptUntil = nowMs();
    const copy = await server.save();
    await server.start();
    await fleet.isAlive(RECOVERY_MS);
    const era = await eraOf(server);

    await server.kill();
    fleet.lostData(keptUntil);
    await server.putBack(copy);
    await fleet.isAlive(RECOVERY_MS);

    expect(await eraOf(server)).not.toBe(era);
    await expectSound(fleet);
  },
);

/** Nobody writes to the disk what no transaction waits for, but for the writer of the log, which a test stops. */
const NO_WRITERS = ['bgwriter_lru_maxpages = 0', 'autovacuum = off', 'checkpoint_timeout = 1h', 'wal_buffers = 32MB'];

test.concurrent('a server that crashes loses nothing where each step waits for its disk', LIMITS, async () => {
  using _place = await places.take();
  await using server = await TestServer.start({ config: NO_WRITERS });
  await using fleet = await started(server.url(), { coordinator: { synchronousCommit: true } });

  for (const crash of Object.values(CRASHES)) {
    const era = await eraOf(server);
    await server.freezeWriter();
    await pause(200 + fleet.random() * 500);
    await crash(server, () => {});
    await fleet.isAlive(RECOVERY_MS);
    expect(await eraOf(server)).not.toBe(era);
  }

  await expectSound(fleet);
});

test.concurrent('a server that crashes and loses its last moments tells who lost what', LIMITS, async () => {
  using _place = await places.take();
  await using server = await TestServer.start({ config: NO_WRITERS });
  await using fleet = await started(server.url());
  await server.ask('create table marks (crash text)');

  for (const [what, crash] of Object.entries(CRASHES)) {
    await server.freezeWriter();
    const keptUntil = nowMs() - 1000;
    await pause(800);
    await server.ask('set synchronous_commit = off');
    await server.ask('insert into marks values ($1)', [what]);
    await crash(server, () => fleet.lostData(keptUntil));
    expect(await server.ask('select crash from marks')).toEqual([]);
    await fleet.isAlive(RECOVERY_MS);
  }

  expect((await expectSound(fleet)).lost).toBeGreaterThan(0);
});

test.concurrent('a server that is frozen beyond the lease, and wakes again, loses nothing', LIMITS, async () => {
  using _place = await places.take();
  await using server = await TestServer.start();
  await using fleet = await started(server.url());

  for (const leases of isLong ? [0.5, 1.2, 3, 1.5] : [1.5]) {
    await server.freeze();
    await pause(leases * LEASE_MS);
    server.thaw();
    await fleet.isAlive(RECOVERY_MS);
  }

  await expectSound(fleet);
});

const noClock = whyNoMovingClock();
if (noClock !== undefined) console.warn(`Steps of a server's clock are not tested: ${noClock}`);

test
  .skipIf(noClock !== undefined)
  .concurrent('steps of the clock of a server kill nobody, and fences rise', LIMITS, async () => {
    using _place = await places.take();
    using clock = new MovingClock();
    await using server = await TestServer.start({ environment: clock.environment });
    await using fleet = await started(server.url());
    const epochs = () => server.ask('select replica_id, epoch from botmesh.replica order by 1');
    const before = await epochs();

    for (const byMs of [3_600_000, -7_200_000, LEASE_MS, -LEASE_MS, 30 * 86_400_000, -60 * 86_400_000]) {
      clock.move(byMs);
      await pause(300 + fleet.random() * 500);
      const [row] = await server.ask('select extract(epoch from clock_timestamp())::float8 * 1000');
      expect(Math.abs((row![0] as number) - Date.now() - clock.movedMs)).toBeLessThan(5000);
    }
    await fleet.isAlive(RECOVERY_MS);

    expect(await epochs()).toEqual(before);
    await expectSound(fleet);
  });
