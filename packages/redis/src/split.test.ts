import { describe, expect, test } from 'vitest';
import { Fleet, isLong, nowMs, type Program, pause, SplitSet, serverPrograms, whyNoHosts } from '../testing/lab.js';

const LEASE_MS = 3000;
const DOWN_AFTER_MS = 3000;
const SEED = Number(process.env.BOTMESH_FAULTS_SEED ?? Math.floor(Math.random() * 1e6));

const reason = isLong ? whyNoHosts() : 'It takes a minute. Set BOTMESH_LONG=1 to run it.';
if (reason !== undefined) console.warn(`A split of Sentinels is not tested: ${reason}`);

describe.skipIf(reason !== undefined).each(serverPrograms())('a split of Sentinels on $name', (program) => {
  test('a primary that must have a replica makes no two holders', { timeout: 240_000 }, async () => {
    // M + 1 s ≤ D + margin: the old side has stopped before the new one begins.
    const config = ['min-replicas-to-write 1', 'min-replicas-max-lag 1', 'repl-ping-replica-period 1'];

    const rules = await rulesBrokenBy(program, config);

    expect(rules, `seed ${SEED}`).toEqual([]);
  });

  test('without that there are two, and they are found out', { timeout: 240_000 }, async () => {
    const rules = await rulesBrokenBy(program, []);

    expect(rules.join('\n')).toContain('exclusion');
  });
});

async function rulesBrokenBy(program: Program, config: readonly string[]): Promise<string[]> {
  await using set = await SplitSet.start({ program, downAfterMs: DOWN_AFTER_MS, config });
  await using fleet = new Fleet({ backend: 'redis', seed: SEED, leaseMs: LEASE_MS, keys: 2 });
  const connect = { sentinels: set.sentinels, group: SplitSet.group };
  await Promise.all([4, 5].map((host) => fleet.start(connect, set.hosts.on(host))));
  await fleet.isAlive(60_000);

  const splitAt = nowMs();
  set.split();
  // The old side has stopped by now, where it is told to, and the new one has not begun.
  await pause(DOWN_AFTER_MS);
  // A replica's word is a second old at most, and so is what it lacks.
  fleet.lostData(splitAt - 2000);
  await set.failedOver();
  await pause(3 * LEASE_MS);
  set.heal();
  await set.oldFollows();
  await fleet.isAlive(60_000);

  const { violations } = await fleet.finish(60_000);
  return violations.map(({ rule, text }) => `${rule}: ${text}`);
}
