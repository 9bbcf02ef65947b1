import type { TestReplica } from '../conformance.js';
import { claim, claimEqual, claimRising } from './claims.js';
import { promised } from './define.js';
import type { Lab } from './Lab.js';
import { reserveInTurn, runAll } from './turns.js';

export const exclusion = [
  promised(4, undefined, async (lab) => {
    const replicas = await lab.replicas(3);
    const fences: number[] = [];
    const turns = async (count: number): Promise<void> => {
      const tickets = await reserveInTurn(replicas, 'k', count);
      const granted = await lab.within(lab.leaseMs, runAll(lab, tickets), `${count} turns`);
      fences.push(...granted.map(({ fence }) => fence));
    };

    await turns(7);
    await lab.sleep(lab.leaseMs * 2);
    await turns(3);
    await Promise.all(replicas.map(({ coordinator }) => coordinator.stop()));
    const late = await lab.replica();
    const turn = await lab.within(lab.deathBoundMs, lab.take(late, 'k'), 'a turn of a replica that came last');
    fences.push(turn.fence);

    claimRising(fences, 'fences');
    claim(fences.every(Number.isSafeInteger), `not all fences are safe integers: ${fences.join(', ')}`);
  }),

  promised(
    4,
    'also when the server lost its data and nobody who knew it is left',
    async (lab) => {
      const before = await lab.replica();
      for (let n = 0; n < 20; n++) await (await lab.take(before, 'k')).release();
      const held = await lab.take(before, 'k');
      await before.coordinator.stop();

      await lab.mesh.server.wipe?.();
      const after = await lab.replica();
      const turn = await lab.within(lab.leaseMs * 2, lab.take(after, 'k'), 'a turn after the loss');

      claimRising([held.fence, turn.fence], 'fences');
    },
    { needs: ['wipe'] },
  ),

  promised(
    4,
    'also when the server lost its data and its clock was set back, while somebody who knew it lives',
    async (lab) => {
      const [a, b] = (await lab.replicas(2)) as [TestReplica, TestReplica];
      for (let n = 0; n < 20; n++) await (await lab.take(a, 'k')).release();
      const before = await lab.take(a, 'k');
      await before.release();

      await lab.mesh.server.wipe?.();
      await lab.mesh.server.stepClock?.(-3_600_000);
      await lab.sleep(lab.leaseMs * 2);
      const after = await lab.within(lab.leaseMs * 2, lab.take(b, 'k'), 'a turn after the loss');

      claimRising([before.fence, after.fence], 'fences');
    },
    { needs: ['wipe', 'stepClock'] },
  ),

  promised(5, undefined, async (lab) => {
    const [a, b] = (await lab.replicas(2)) as [TestReplica, TestReplica];
    const hot = await lab.take(a, 'hot');
    for (let n = 0; n < 50; n++) lab.follow(lab.take(n % 2 === 0 ? a : b, 'hot'));

    const others = Array.from({ length: 200 }, (_, n) => lab.take(n % 2 === 0 ? a : b, `other ${n}`));
    const turns = await lab.within(lab.beatMs / 2 + lab.slackMs, Promise.all(others), '200 turns of other keys');
    hot.assertHeld();
    await lab.within(lab.beatMs / 2 + lab.slackMs, Promise.all(turns.map((turn) => turn.release())), '200 releases');

    hot.assertHeld();
  }),

  promised(5, 'also of one replica, in one batch of calls', async (lab) => {
    const replica = await lab.replica();
    const busy = await lab.take(replica, 'busy');

    const waiting = lab.follow(lab.take(replica, 'busy'));
    const other = lab.take(replica, 'other');
    const stillWaiting = lab.follow(lab.take(replica, 'busy'));

    await lab.atOnce(other, 'a turn of the other key');
    claimEqual([waiting.state, stillWaiting.state], ['waiting', 'waiting'], 'turns of the busy key');
    await busy.release();
  }),

  promised(6, undefined, async (lab) => {
    const [a, b] = (await lab.replicas(2)) as [TestReplica, TestReplica];
    const first = await lab.take(a, 'k');
    const second = lab.acquire(a, await a.coordinator.reserve('k'));
    const third = lab.follow(lab.take(b, 'k'));

    await Promise.all([first.release(), first.release(), first.release({ retry: true })]);
    const turn = await lab.atOnce(second, 'the second turn');
    await first.release();
    await lab.watch(lab.beatMs * 2);

    turn.assertHeld();
    claimEqual(third.state, 'waiting', 'the third turn, while the second is held');
    await turn.release();
    await lab.until(lab.slackMs, () => third.state === 'resolved', 'the third turn');
  }),

  promised(6, 'also a release by who lost the turn', async (lab) => {
    const [a, b, c] = (await lab.replicas(3)) as [TestReplica, TestReplica, TestReplica];
    const old = await lab.take(a, 'k');
    const next = lab.take(b, 'k');
    a.freeze();
    const turn = await lab.within(lab.deathBoundMs, next, 'the turn of the next replica');
    const third = lab.follow(lab.take(c, 'k'));

    a.thaw();
    await lab.within(lab.leaseMs, old.release(), 'the release of the lost turn');
    await lab.watch(lab.leaseMs);

    turn.assertHeld();
    claimEqual(third.state, 'waiting', 'the third turn, while the second is held');
  }),

  promised(6, 'also a release that reaches the store again, later', async (lab) => {
    const [a, b] = (await lab.replicas(2)) as [TestReplica, TestReplica];
    const first = await lab.take(a, 'k');
    a.repeatRequests({ next: 1, of: 'apply' }, lab.beatMs);

    await first.release();
    const turn = await lab.take(a, 'k');
    const other = lab.follow(lab.take(b, 'k'));
    await lab.watch(lab.beatMs * 3);

    turn.assertHeld();
    claimEqual(other.state, 'waiting', 'the other turn, while this one is held');
  }),

  promised(7, undefined, (lab) => grantDuringPause(lab, (lab.trustMs + lab.leaseMs) / 2, 'freeze')),
  promised(7, 'also after a pause longer than the lease', (lab) => grantDuringPause(lab, lab.leaseMs * 1.5, 'freeze')),
  promised(7, 'also when the host was suspended', (lab) =>
    grantDuringPause(lab, (lab.trustMs + lab.leaseMs) / 2, 'suspend'),
  ),

  promised(7, 'also when the answer to the reservation itself came too late', async (lab) => {
    const [a, b] = (await lab.replicas(2)) as [TestReplica, TestReplica];
    await lab.nextBeat(a);
    a.delay({ minMs: lab.beatMs / 10, maxMs: lab.beatMs / 10 });
    const mine = lab.follow(lab.take(a, 'k'));
    await lab.sleep(lab.beatMs / 20);
    a.freeze();
    await lab.sleep(lab.trustMs + lab.beatMs / 2);
    const other = lab.follow(lab.take(b, 'k'));

    a.thaw();
    await lab.watch(lab.leaseMs * 2);

    claim(mine.state !== 'waiting', 'the call still waits, two leases after the pause');
    if (mine.state === 'resolved') await mine.value?.release();
    await lab.until(lab.deathBoundMs, () => other.state === 'resolved', 'the turn of the other replica');
  }),
];

/** A key is granted to a replica that is stopped; what its caller gets when it runs again must not be lapsed. */
async function grantDuringPause(lab: Lab, pauseMs: number, how: 'freeze' | 'suspend'): Promise<void> {
  for (const first of ['arrivals', 'timers'] as const) {
    const key = `k after ${first}`;
    const [a, b] = (await lab.replicas(2)) as [TestReplica, TestReplica];
    const held = await lab.take(b, key);
    const mine = lab.follow(lab.take(a, key));
    await lab.nextBeat(a);
    a[how]();
    const pause = lab.sleep(pauseMs);
    await held.release();
    const other = lab.follow(lab.take(b, key));
    await pause;

    // take() fails when it is handed a turn that has lapsed, or that somebody else still holds.
    a.thaw({ first });
    await lab.watch(lab.leaseMs * 2);
    claim(mine.state !== 'waiting', 'the call still waits, two leases after the pause');
    claim(mine.error === undefined || isLoss(mine.error), `the call was rejected with ${mine.error}`);
    if (mine.state === 'resolved') await mine.value?.release();
    await lab.until(lab.deathBoundMs, () => other.state === 'resolved', 'the turn of the other replica');
  }
}

const isLoss = (name: string): boolean => ['unavailable', 'superseded', 'expired'].includes(name);
