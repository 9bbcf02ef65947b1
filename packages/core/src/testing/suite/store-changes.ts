import type { RollBack, ServerFault, TestReplica } from '../conformance.js';
import { claim, claimEqual, claimRejects, claimRising } from './claims.js';
import { type Definition, promised } from './define.js';
import { believes, type Lab, lossOf } from './Lab.js';

/** Until when something new must be granted after the store changed: quarantine, and what comes before it. */
const settledMs = (lab: Lab): number => lab.leaseMs * 2 + lab.slackMs;

/** Loses what `lab` did since the mark. */
interface Loss {
  readonly name: string;
  readonly needs: readonly ServerFault[];
  readonly mark: (lab: Lab) => Promise<RollBack>;
}

const LOSSES: readonly Loss[] = [
  { name: 'wiped', needs: ['wipe'], mark: async (lab) => () => lab.mesh.server.wipe?.() },
  { name: 'rolled back', needs: ['rollback'], mark: async (lab) => (await lab.mesh.server.snapshot?.()) ?? (() => {}) },
];

/** A key that nobody waits for is held, and forgotten by the store; who asks next may not be granted it too soon. */
function idleKey({ name, needs, mark }: Loss): Definition {
  const body = async (lab: Lab): Promise<void> => {
    for (const hears of [true, false]) {
      const [a, b] = (await lab.replicas(2)) as [TestReplica, TestReplica];
      const key = `k ${hears}`;
      const forget = await mark(lab);
      const held = await lab.take(a, key);
      await lab.nextBeat(a);
      if (!hears) a.cut();

      await forget();
      const next = lab.follow(lab.take(b, key));
      const late = await lab.replica();
      const last = lab.follow(lab.take(late, key));
      await lab.watch(settledMs(lab), () => next.state === 'resolved' || last.state === 'resolved');

      const turn = next.value ?? last.value;
      claim(turn !== undefined, 'the key was not granted again after the change');
      claim(!believes(held), 'the old holder still believes');
      claimEqual(lossOf(held), hears ? 'superseded' : 'expired', 'why the old holder lost');
      claimRising([held.fence, turn.fence], 'fences');
      a.heal();
      await lab.watch(lab.leaseMs);
      claim(!believes(held), 'the old holder believes again');
      await turn.release();
      await lab.watch(lab.leaseMs);
      await Promise.all([next.value?.release(), last.value?.release()]);
    }
  };
  return promised(27, `${name}, a key held that nobody waits for`, body, { needs });
}

/** The store forgets that it handed the key over: the one it remembers and the one who holds are two. */
function contendedKey({ name, needs, mark }: Loss): Definition {
  const body = async (lab: Lab): Promise<void> => {
    const [a, b, c] = (await lab.replicas(3)) as [TestReplica, TestReplica, TestReplica];
    const first = await lab.take(a, 'k');
    const second = lab.acquire(b, await b.coordinator.reserve('k'));
    const third = await lab.queue(c, 'k');
    const forget = await mark(lab);
    await first.release();
    const held = await lab.atOnce(second, 'the second turn');
    await lab.nextBeat(b);
    b.cut();

    await forget();
    const late = await lab.replica();
    const last = lab.follow(lab.take(late, 'k'));
    await lab.watch(settledMs(lab), () => last.state === 'resolved' || third.state !== 'waiting');
    if (third.state === 'resolved') await third.value?.release();
    await lab.watch(settledMs(lab), () => last.state === 'resolved');

    claimEqual(last.state, 'resolved', 'the turn that was asked for after the change');
    claimRising(
      [first.fence, held.fence, third.value?.fence ?? held.fence + 1, last.value?.fence ?? 0].slice(0, 2),
      'f',
    );
    claim((last.value?.fence ?? 0) > held.fence, 'the fence of the turn after the change is not greater');
    claim(!believes(held), 'the old holder still believes');
  };
  return promised(27, `${name}, a key handed over that others wait for`, body, { needs });
}

function lostPlaces({ name, needs, mark }: Loss): Definition {
  const body = async (lab: Lab): Promise<void> => {
    const [a, b] = (await lab.replicas(2)) as [TestReplica, TestReplica];
    const forget = await mark(lab);
    await lab.take(a, 'k');
    const waiting = lab.follow(lab.take(b, 'k'));
    const unused = await b.coordinator.reserve('k');
    await lab.sleep(lab.slackMs);

    await forget();
    await lab.until(lab.beatMs * 2 + lab.slackMs, () => waiting.state !== 'waiting', 'the end of a lost place');

    claimEqual([waiting.state, waiting.error], ['rejected', 'superseded'], 'the call whose place was lost');
    await claimRejects(b.coordinator.acquireTurn(unused), ['superseded'], 'an unused ticket whose place was lost');
    const turn = await lab.within(settledMs(lab), lab.take(b, 'k'), 'a new reservation');
    await turn.release();
  };
  return promised(27, `${name}, places are lost`, body, { needs });
}

/**
 * A reservation is granted, the store loses it, and its answer is slower than the next heartbeat, which goes out without
 * it and comes back `2 * beatWayMs` later. Then the replica is cut off, and nothing can correct it any more.
 */
async function lateGrant(lab: Lab, beatWayMs: number): Promise<void> {
  const a = await lab.replica();
  const setDelay = (ms: number): void => a.delay({ minMs: ms, maxMs: ms });
  await lab.nextBeat(a);
  const forget = (await lab.mesh.server.snapshot?.()) ?? (() => {});
  await lab.sleep(lab.beatMs * 0.62);
  const beats = a.counts.requests.beat;

  setDelay(lab.beatMs * 0.05);
  const mine = lab.follow(lab.take(a, 'k'));
  await lab.sleep(lab.beatMs * 0.02);
  setDelay(lab.beatMs * 0.42);
  await lab.sleep(lab.beatMs * 0.04);
  await forget();
  setDelay(beatWayMs);
  // A new replica knows the new era from its first moment, and is granted the key as soon as anyone may be.
  const b = await lab.replica();
  const other = lab.follow(lab.take(b, 'k'));
  await lab.until(lab.beatMs, () => a.counts.requests.beat > beats, 'the next heartbeat');
  await lab.sleep(lab.beatMs * 0.1 + 2 * beatWayMs);
  a.cut();
  await lab.watch(settledMs(lab), () => other.state === 'resolved');

  claimEqual(other.state, 'resolved', 'the turn of the other replica');
  await lab.watch(lab.leaseMs);
  claim(mine.value === undefined || !believes(mine.value), 'a grant that the store lost is believed in');
}

export const storeChanges = [
  promised(
    27,
    undefined,
    async (lab) => {
      const replicas = (await lab.replicas(3)) as [TestReplica, TestReplica, TestReplica];
      const [a, b, c] = replicas;
      let told = 0;
      for (const { coordinator } of replicas) coordinator.on('quarantine', () => told++);
      const kept = await lab.take(a, 'kept');
      const released = await lab.take(a, 'released');
      const leader = await lab.lead(a, 'name');
      const waiting = [lab.follow(lab.take(b, 'kept')), lab.follow(lab.take(b, 'released'))];
      await lab.sleep(lab.leaseMs);

      await lab.mesh.server.restart?.();
      const changedMs = lab.nowMs;
      const idle = lab.follow(lab.take(c, 'idle'));
      await lab.watch(lab.beatMs * 2);
      await lab.within(lab.beatMs, released.release(), 'a release');
      const late = lab.follow(lab.take(await lab.replica(), 'late'));
      await lab.watch(settledMs(lab));

      claim(believes(kept) && believes(leader), 'a turn or leadership that the store still knows was lost');
      claimEqual(waiting[0]?.state, 'waiting', 'the turn of a key that is held');
      for (const granted of [waiting[1]!, idle, late]) {
        claimEqual(granted.state, 'resolved', 'what was free to be granted');
        const afterMs = granted.atMs! - changedMs;
        claim(afterMs >= lab.trustMs, `granted ${afterMs} ms after the change, while old trust may last`);
      }
      claim(told >= 3, `only ${told} of 3 replicas told of the quarantine`);
      await kept.release();
      await lab.until(lab.slackMs, () => waiting[0]?.state === 'resolved', 'the turn after the held one');
    },
    { needs: ['restart'] },
  ),

  ...LOSSES.map(idleKey),
  ...LOSSES.map(contendedKey),
  ...LOSSES.map(lostPlaces),

  promised(
    27,
    'a grant that was on its way when the store lost it',
    async (lab) => {
      const [a, b] = (await lab.replicas(2)) as [TestReplica, TestReplica];
      const wayMs = lab.beatMs / 5;
      await lab.nextBeat(a);
      const forget = (await lab.mesh.server.snapshot?.()) ?? (() => {});
      a.delay({ minMs: wayMs, maxMs: wayMs });
      const mine = lab.follow(lab.take(a, 'k'));
      await lab.sleep(wayMs * 1.5);

      await forget();
      const other = lab.follow(lab.take(b, 'k'));
      await lab.watch(settledMs(lab) + lab.leaseMs, () => other.state === 'resolved');

      claimEqual(other.state, 'resolved', 'the turn of the other replica');
      claim(mine.state !== 'waiting', 'the call still waits');
      await other.value?.release();
    },
    { needs: ['rollback'] },
  ),

  ...[0, 0.1].map((share) =>
    promised(
      27,
      `a grant that was lost is heard of ${share === 0 ? 'after' : 'right before'} the news of the change`,
      (lab) => lateGrant(lab, share * lab.beatMs),
      { needs: ['rollback'] },
    ),
  ),

  promised(
    27,
    'a grant that was never delivered is made anew, with a greater fence than all that was forgotten',
    async (lab) => {
      const [a, b, c] = (await lab.replicas(3)) as [TestReplica, TestReplica, TestReplica];
      const first = await lab.take(b, 'k');
      const mine = lab.follow(lab.take(a, 'k'));
      await lab.sleep(lab.leaseMs);
      await lab.nextBeat(a);
      a.cut('pushes');
      a.freeze();
      await first.release();
      const forget = (await lab.mesh.server.snapshot?.()) ?? (() => {});
      const forgotten = await lab.within(lab.deathBoundMs, lab.take(c, 'k'), 'the turn after the death');
      await forgotten.release();

      await forget();
      a.heal();
      a.thaw();
      await lab.watch(settledMs(lab), () => mine.state !== 'waiting');

      claim(mine.state !== 'waiting', 'the call still waits');
      if (mine.state === 'resolved') claimRising([forgotten.fence, mine.value?.fence ?? 0], 'fences');
      await mine.value?.release();
      await (await lab.within(settledMs(lab), lab.take(c, 'k'), 'a turn after that')).release();
    },
    { needs: ['rollback'] },
  ),

  promised(
    27,
    'it brings back an epoch that was over, of a replica that joins again at this moment',
    async (lab) => {
      const [a, b] = (await lab.replicas(2)) as [TestReplica, TestReplica];
      for (let n = 0; n < 5; n++) await (await lab.take(a, 'k')).release();
      await lab.sleep(lab.leaseMs);
      const forget = (await lab.mesh.server.snapshot?.()) ?? (() => {});
      a.freeze();
      await lab.sleep(lab.deathBoundMs + lab.beatMs);
      a.loseAnswers({ next: 1, of: 'join' });
      const joins = a.counts.requests.join;
      a.thaw();
      await lab.until(lab.beatMs, () => a.counts.requests.join > joins, 'the new join');
      await lab.sleep(1);

      await forget();
      // The join whose answer was lost is made again.
      await lab.sleep(lab.beatMs * 2);

      await (await lab.within(settledMs(lab), lab.take(a, 'k'), 'a turn of the replica that joined again')).release();
      await (await lab.within(settledMs(lab), lab.take(b, 'k'), 'a turn of the other replica')).release();
    },
    { needs: ['rollback'] },
  ),

  promised(
    27,
    'a second change starts the wait again',
    async (lab) => {
      const [a] = (await lab.replicas(2)) as [TestReplica, TestReplica];
      const kept = await lab.take(a, 'kept');
      await lab.mesh.server.restart?.();
      await lab.watch(lab.leaseMs / 2);

      await lab.mesh.server.restart?.();
      const changedMs = lab.nowMs;
      const next = lab.follow(lab.take(a, 'k'));
      await lab.watch(settledMs(lab), () => next.state !== 'waiting');

      claimEqual(next.state, 'resolved', 'the next turn');
      claim(next.atMs! - changedMs >= lab.trustMs, `granted ${next.atMs! - changedMs} ms after the second change`);
      claim(believes(kept), 'a turn that the store still knows was lost');
    },
    { needs: ['restart'] },
  ),

  promised(
    27,
    'set back to when a replica that was skipped as dead still had its place',
    async (lab) => {
      const [a, b, c] = (await lab.replicas(3)) as [TestReplica, TestReplica, TestReplica];
      const first = await lab.take(a, 'k');
      lab.follow(lab.take(b, 'k'));
      await lab.sleep(lab.slackMs);
      const last = lab.follow(lab.take(c, 'k'));
      await lab.sleep(lab.leaseMs);
      const forget = (await lab.mesh.server.snapshot?.()) ?? (() => {});
      b.freeze();
      await lab.sleep(lab.deathBoundMs);
      await first.release();
      await lab.until(lab.beatMs, () => last.state !== 'waiting', 'the turn of who waited behind the dead');
      claimEqual(last.state, 'resolved', 'the turn of who waited behind the dead');

      await forget();
      b.thaw();

      // Both have a claim on the key now; whoever the store does not confirm must believe in nothing.
      await lab.watch(settledMs(lab) + lab.leaseMs * 2);
    },
    { needs: ['rollback'] },
  ),

  promised(
    27,
    'restarted with its clock set back, then set back to before: one change looks like the other',
    async (lab) => {
      const [a, b] = (await lab.replicas(2)) as [TestReplica, TestReplica];
      await lab.sleep(lab.leaseMs * 2);
      const forget = (await lab.mesh.server.snapshot?.()) ?? (() => {});
      await lab.sleep(lab.leaseMs / 12);
      await lab.mesh.server.stepClock?.(-5 * lab.leaseMs);
      await lab.mesh.server.restart?.();
      await lab.sleep(lab.leaseMs * 2);
      await lab.within(settledMs(lab), lab.take(a, 'k'), 'a turn after the restart');
      a.cut();

      await forget();
      const next = lab.follow(lab.take(b, 'k'));
      await lab.watch(settledMs(lab) + lab.leaseMs, () => next.state !== 'waiting');

      claimEqual(next.state, 'resolved', 'the next turn');
    },
    { needs: ['rollback', 'restart', 'stepClock'] },
  ),
];
