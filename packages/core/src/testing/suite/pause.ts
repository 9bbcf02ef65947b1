import type { TestReplica } from '../conformance.js';
import { claim, claimEqual, claimRejects, claimRising } from './claims.js';
import { type Definition, promised } from './define.js';
import { believes, type Lab, lossOf } from './Lab.js';

type Pause = 'frozen' | 'suspended' | 'cut off' | 'frozen, its wall clock set back';

function begin(replica: TestReplica, how: Pause): void {
  if (how === 'suspended') replica.suspend();
  else if (how === 'cut off') replica.cut();
  else replica.freeze();
  if (how === 'frozen, its wall clock set back') replica.stepWall(-3_600_000);
}

function end(replica: TestReplica, how: Pause, first: 'arrivals' | 'timers'): void {
  if (how === 'cut off') replica.heal();
  else replica.thaw({ first });
}

/** A heartbeat is on its way, and its answer is not there yet: it comes when the pause ends. */
async function sendSlowBeat(lab: Lab, replica: TestReplica): Promise<void> {
  replica.delay({ minMs: lab.beatMs / 10, maxMs: lab.beatMs / 10 });
  await lab.nextBeat(replica);
  replica.delay({ minMs: 0, maxMs: 0 });
}

/** Holds, waits and leads, pauses for longer than the lease, and acts in the first tick after it. */
function pastTheLease(how: Pause): Definition {
  // C-31, C-33, C-36
  return promised(10, how === 'frozen' ? undefined : `${how} past the lease`, async (lab) => {
    for (const first of ['arrivals', 'timers'] as const) {
      const [a, b] = (await lab.replicas(2)) as [TestReplica, TestReplica];
      const superseded: { epoch: number; successor: number }[] = [];
      a.coordinator.on('superseded', (event) => superseded.push(event));
      const turn = await lab.take(a, `k ${first}`);
      const leadership = await lab.lead(a, `name ${first}`);
      const busy = await lab.take(b, `busy ${first}`);
      const waiting = lab.follow(lab.take(a, `busy ${first}`));
      const unused = await a.coordinator.reserve(`busy ${first}`);
      const next = lab.follow(lab.take(b, `k ${first}`));
      await lab.sleep(lab.leaseMs);
      await sendSlowBeat(lab, a);

      begin(a, how);
      await lab.sleep(Math.max(lab.leaseMs * 1.5, lab.deathBoundMs));
      end(a, how, first);
      claim(!believes(turn) && !believes(leadership), 'a holder believes in the first tick after its pause');
      claimEqual(next.state, 'resolved', 'the turn of the next replica');
      await lab.watch(lab.leaseMs * 2);

      claim(!believes(turn) && !believes(leadership), 'what was lost is believed to be held again');
      claimEqual([lossOf(turn), lossOf(leadership)], ['expired', 'expired'], 'why they were lost');
      await claimLost(a, waiting, unused, how);
      claimEqual(superseded.length, 1, 'times that it was told to be superseded');
      claimRising([superseded[0]?.epoch ?? 0, superseded[0]?.successor ?? 0], 'its epochs');
      await busy.release();
      await (await lab.atOnce(lab.take(a, `busy ${first}`), 'a new reservation')).release();
    }
  });
}

/** A replica that was cut off rejects what waits before it learns of its death; any other learns of that first. */
async function claimLost(
  replica: TestReplica,
  waiting: { state: string; error?: string },
  unused: { key: string; seq: number },
  how: Pause,
): Promise<void> {
  claimEqual(waiting.state, 'rejected', 'a call that waited');
  if (how !== 'cut off') claimEqual(waiting.error, 'superseded', 'why a call that waited was rejected');
  await claimRejects(replica.coordinator.acquireTurn(unused), ['superseded'], 'a ticket from before the pause');
}

/** A pause longer than local trust and shorter than the lease: lost here, though the store knows of no death. */
function pastTrust(how: Pause): Definition {
  return promised(10, `${how} past its trust, within the lease`, async (lab) => {
    for (const first of ['arrivals', 'timers'] as const) {
      const [a, b] = (await lab.replicas(2)) as [TestReplica, TestReplica];
      const turn = await lab.take(a, `k ${first}`);
      const next = lab.follow(lab.take(b, `k ${first}`));
      await sendSlowBeat(lab, a);

      begin(a, how);
      await lab.sleep(lab.trustMs + lab.slackMs);
      end(a, how, first);
      claim(!believes(turn), 'the holder believes in the first tick after its pause');
      await lab.watch(lab.leaseMs * 2);

      claim(!believes(turn), 'what was lost is believed to be held again');
      claimEqual(lossOf(turn), 'expired', 'why it was lost');
      claimEqual(next.state, 'resolved', 'the turn of the next replica');
      await next.value?.release();
      await (await lab.atOnce(lab.take(a, `k ${first}`), 'a new reservation')).release();
    }
  });
}

export const pause = [
  pastTheLease('frozen'),
  pastTheLease('suspended'),
  pastTheLease('cut off'),
  pastTheLease('frozen, its wall clock set back'),
  pastTrust('frozen'),
  pastTrust('suspended'),
  pastTrust('frozen, its wall clock set back'),

  promised(10, 'a pause short of its trust loses nothing', async (lab) => {
    for (const how of ['frozen', 'suspended', 'cut off'] as const) {
      for (const first of ['arrivals', 'timers'] as const) {
        const [a, b] = (await lab.replicas(2)) as [TestReplica, TestReplica];
        const key = `k ${how} ${first}`;
        const turn = await lab.take(a, key);
        const next = lab.follow(lab.take(b, key));
        await lab.nextBeat(a);

        begin(a, how);
        await lab.sleep(lab.trustMs - 1.5 * lab.beatMs - lab.slackMs);
        end(a, how, first);
        turn.assertHeld();
        await lab.watch(lab.leaseMs * 1.5);

        claim(believes(turn), `a pause of less than the trust lost the turn (${how})`);
        claimEqual(next.state, 'waiting', 'the turn of the next replica');
      }
    }
  }),

  promised(
    10,
    'the answer of a heartbeat sent before the deadline and heard after it makes nothing held again',
    async (lab) => {
      const [a, b] = (await lab.replicas(2)) as [TestReplica, TestReplica];
      const turn = await lab.take(a, 'k');
      const next = lab.follow(lab.take(b, 'k'));
      await lab.nextBeat(a);
      const trustedUntilMs = lab.nowMs + lab.trustMs;
      // Heartbeats reach the store, but no answer comes back until shortly before the deadline.
      a.cut('answers');
      await lab.sleep(lab.trustMs - lab.beatMs);
      a.delay({ minMs: lab.beatMs / 10, maxMs: lab.beatMs / 10 });
      a.heal();
      await lab.nextBeat(a);
      claim(lab.nowMs < trustedUntilMs, 'no heartbeat was sent in the last part of the trust');

      a.freeze();
      await lab.sleep(trustedUntilMs - lab.nowMs + lab.slackMs);
      a.thaw({ first: 'arrivals' });
      await lab.sleep(lab.slackMs);

      claimEqual(lossOf(turn), 'expired', 'why it was lost');
      await lab.watch(lab.leaseMs * 2);
      claim(!believes(turn), 'what was lost is believed to be held again');
      claimEqual(next.state, 'resolved', 'the turn of the next replica');
    },
  ),

  promised(10, 'nothing that a replica says of its former life counts', async (lab) => {
    const [a, b, c] = (await lab.replicas(3)) as [TestReplica, TestReplica, TestReplica];
    const old = await lab.take(a, 'k');
    const next = lab.acquire(b, await b.coordinator.reserve('k'));
    const last = await lab.queue(c, 'k');
    await lab.sleep(lab.leaseMs);

    // Requests of its former life are still on their way when it is counted as dead.
    a.delay({ minMs: lab.leaseMs * 2, maxMs: lab.leaseMs * 2 });
    lab.follow(old.release());
    lab.follow(a.coordinator.reserve('k'));
    await lab.sleep(lab.slackMs);
    a.freeze();
    const turn = await lab.within(lab.deathBoundMs, next, 'the turn of the next replica');
    await lab.watch(lab.leaseMs * 2);

    claim(believes(turn), 'the holder lost its turn');
    claimEqual(last.state, 'waiting', 'the last turn');
    await turn.release();
    await (await lab.atOnce(lab.take(b, 'k2'), 'another turn')).release();
    await lab.until(lab.slackMs, () => last.state === 'resolved', 'the last turn');
    await last.value?.release();
    claimEqual(await lab.places(), 0, 'places left behind');
  }),
];
