import { StaleFenceError } from '../../errors.js';
import { MemoryStateStore } from '../../state/MemoryStateStore.js';
import type { TestReplica } from '../conformance.js';
import { claim, claimEqual, claimRejects, claimRising } from './claims.js';
import { promised } from './define.js';
import { believes, lossOf } from './Lab.js';
import { reserveInTurn } from './turns.js';

export const death = [
  // C-07, C-28
  promised(8, undefined, async (lab) => {
    const [a, b] = (await lab.replicas(2)) as [TestReplica, TestReplica];
    const held = await lab.take(a, 'k');
    for (let n = 0; n < 30; n++) lab.follow(lab.take(a, 'k'));
    await lab.sleep(lab.slackMs);
    const next = lab.take(b, 'k');
    await lab.sleep(lab.leaseMs);

    a.crash();
    const turn = await lab.within(lab.deathBoundMs, next, 'the next live ticket');

    claimRising([held.fence, turn.fence], 'fences');
    claim(!believes(held), 'the dead holder would still believe');
  }),

  promised(8, 'also of many keys, when the survivor started a moment before the death', async (lab) => {
    const a = await lab.replica();
    await Promise.all(Array.from({ length: 50 }, (_, n) => lab.take(a, `k${n}`)));
    const b = await lab.replica();
    const next = Array.from({ length: 50 }, (_, n) => lab.take(b, `k${n}`));
    await lab.sleep(lab.slackMs);

    a.crash();

    await lab.within(lab.deathBoundMs, Promise.all(next), 'all 50 keys of the dead');
  }),

  promised(8, 'also when the dead stand between the living', async (lab) => {
    const replicas = await lab.replicas(4);
    const [a, b, c, d] = replicas as [TestReplica, TestReplica, TestReplica, TestReplica];
    const order: string[] = [];
    const held = await lab.take(a, 'k');
    const tickets = await reserveInTurn([b, c, b, d, c, a], 'k', 6);
    const waiting = tickets.map(async ([replica, ticket], n) => {
      const turn = await lab.acquire(replica, ticket);
      order.push(`${n}`);
      await turn.release();
    });
    for (const each of waiting) each.catch(() => {});

    b.crash();
    c.crash();
    await lab.sleep(lab.slackMs);
    await held.release();
    await lab.within(lab.deathBoundMs, Promise.all([waiting[3], waiting[5]]), 'the turns of the living');

    claimEqual(order, ['3', '5'], 'the turns that were granted');
  }),

  promised(8, 'also of a place that is taken after the death', async (lab) => {
    const [a, b] = (await lab.replicas(2)) as [TestReplica, TestReplica];
    await lab.take(a, 'k');
    await lab.sleep(lab.leaseMs);
    a.crash();
    await lab.sleep(lab.leaseMs / 2);

    await lab.within(
      lab.deathBoundMs - lab.leaseMs / 2,
      lab.take(b, 'k'),
      'a place taken half a lease after the death',
    );
  }),

  promised(9, undefined, async (lab) => {
    const [a, b] = (await lab.replicas(2)) as [TestReplica, TestReplica];
    const turn = await lab.take(a, 'k');
    const next = lab.follow(lab.take(b, 'k'));
    await lab.sleep(lab.leaseMs);
    let abortedAtMs = 0;
    turn.signal.addEventListener('abort', () => {
      abortedAtMs = lab.nowMs;
    });

    await lab.nextBeat(a);
    const cutAtMs = lab.nowMs;
    a.cut();
    await lab.watch(lab.deathBoundMs, () => next.state !== 'waiting');

    claimEqual(next.state, 'resolved', 'the next turn');
    claim(abortedAtMs !== 0 && abortedAtMs < next.atMs!, `aborted at ${abortedAtMs}, granted at ${next.atMs}`);
    claimEqual(lossOf(turn), 'expired', 'why it was lost');
    const trustedMs = abortedAtMs - cutAtMs;
    claim(trustedMs <= lab.trustMs + lab.slackMs, `believed for ${trustedMs} ms without an answer`);
    claim(trustedMs >= lab.trustMs - lab.beatMs - lab.slackMs, `believed for only ${trustedMs} ms`);
  }),

  promised(9, 'no answer is not loss until the local deadline', async (lab) => {
    for (const way of ['all', 'answers', 'requests'] as const) {
      const [a, b] = (await lab.replicas(2)) as [TestReplica, TestReplica];
      const turn = await lab.take(a, way);
      const next = lab.follow(lab.take(b, way));
      await lab.nextBeat(a);

      a.cut(way);
      await lab.watch(lab.trustMs - 1.5 * lab.beatMs - lab.slackMs);
      claim(believes(turn), `lost before the deadline (${way})`);
      a.heal();
      await lab.watch(lab.leaseMs * 2);

      claim(believes(turn), `lost although the answers came again in time (${way})`);
      claimEqual(next.state, 'waiting', 'the next turn');
      await turn.release();
      await lab.until(lab.slackMs, () => next.state === 'resolved', 'the next turn');
    }
  }),

  promised(9, 'when only the answers are lost, the signal aborts first as well', async (lab) => {
    const [a, b] = (await lab.replicas(2)) as [TestReplica, TestReplica];
    const turn = await lab.take(a, 'k');
    const next = lab.follow(lab.take(b, 'k'));

    a.cut('answers');
    await lab.watch(lab.trustMs + lab.slackMs, () => turn.signal.aborted);

    claimEqual(lossOf(turn), 'expired', 'why it was lost');
    await lab.watch(lab.deathBoundMs, () => next.state !== 'waiting');
    claimEqual(next.state, 'resolved', 'the next turn');
  }),

  promised(9, 'trust runs from the sending of the heartbeat, not from its answer', async (lab) => {
    const a = await lab.replica();
    const turn = await lab.take(a, 'k');
    await lab.nextBeat(a);
    a.delay({ minMs: lab.beatMs / 5, maxMs: lab.beatMs / 5 });
    await lab.nextBeat(a);
    const sentMs = lab.nowMs;
    await lab.sleep(lab.beatMs / 2);

    a.cut();
    await lab.watch(lab.leaseMs, () => turn.signal.aborted);

    const trustedMs = lab.nowMs - sentMs;
    claim(trustedMs <= lab.trustMs + lab.beatMs / 10 + lab.slackMs, `believed until ${trustedMs} ms after the sending`);
  }),

  promised(
    9,
    "'not yours' is loss at once",
    async (lab) => {
      const a = await lab.replica();
      const turn = await lab.take(a, 'k');
      await lab.sleep(lab.leaseMs);

      await lab.mesh.server.wipe?.();
      await lab.watch(lab.beatMs + lab.slackMs, () => turn.signal.aborted);

      claimEqual(lossOf(turn), 'superseded', 'why it was lost');
      claim(!believes(turn), 'the holder still believes');
    },
    { needs: ['wipe'] },
  ),

  promised(11, undefined, async (lab) => {
    const [a, b] = (await lab.replicas(2)) as [TestReplica, TestReplica];
    const state = new MemoryStateStore();
    const replies: string[] = [];
    const reply = (turn: { assertHeld(): void }, text: string): void => {
      turn.assertHeld();
      replies.push(text);
    };
    const old = await lab.take(a, 'k');
    const next = lab.take(b, 'k');
    a.freeze();
    const turn = await lab.within(lab.deathBoundMs, next, 'the next turn');
    await state.save('k', 'new', turn.fence);
    reply(turn, 'new');

    a.thaw();
    // What a holder would do that was stopped in the middle of its work, and goes on with the next line of it.
    const written = await state.save('k', 'old', old.fence).catch((error: unknown) => error);
    await claimRejects(
      (async () => reply(old, 'old'))(),
      ['expired', 'superseded'],
      'the reply of the holder that lost its turn',
    );

    const passed = `a write under the lost fence ${old.fence} passed after one under ${turn.fence}`;
    claim(written instanceof StaleFenceError, passed);
    claimEqual([(await state.load('k'))?.value, replies], ['new', ['new']], 'what was written and sent');
  }),
];
