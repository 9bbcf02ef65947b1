import type { TestReplica } from '../conformance.js';
import { claim, claimEqual } from './claims.js';
import { promised } from './define.js';
import { believes, lossOf } from './Lab.js';

export const network = [
  // C-39b
  promised(12, undefined, async (lab) => {
    const [a, b] = (await lab.replicas(2)) as [TestReplica, TestReplica];
    for (const round of [1, 2, 3]) {
      const held = await lab.take(a, 'k');
      const next = lab.take(b, 'k');
      await lab.sleep(lab.slackMs);

      b.cut('pushes');
      await held.release();
      const turn = await lab.within(lab.beatMs + lab.slackMs, next, `a grant without notification (${round})`);
      b.heal();
      await turn.release();
    }
  }),

  promised(12, 'also of a leadership, and when no notification ever arrives', async (lab) => {
    const [a, b] = (await lab.replicas(2)) as [TestReplica, TestReplica];
    let told = 0;
    b.coordinator.on('wakeDegraded', () => told++);
    b.cut('pushes');
    for (let round = 0; round < 4; round++) {
      const led = await lab.lead(a, 'name');
      const next = lab.lead(b, 'name');
      await lab.sleep(lab.beatMs * 3);

      await led.resign();
      await (await lab.within(lab.beatMs + lab.slackMs, next, 'an election without notification')).resign();
    }
    claim(told > 0, 'nothing was told of pushes that do not arrive');
  }),

  promised(12, 'also when it overtakes the answer that names the ticket', async (lab) => {
    const [a, b] = (await lab.replicas(2)) as [TestReplica, TestReplica];
    const setDelay = (ms: number): void => b.delay({ minMs: ms, maxMs: ms });
    const held = await lab.take(a, 'k');
    await lab.nextBeat(b);
    const startedMs = lab.nowMs;
    setDelay(lab.beatMs * 0.05);
    const next = lab.follow(lab.take(b, 'k'));
    await lab.sleep(lab.beatMs * 0.02);
    // The answer takes longer than the push that is sent after it.
    setDelay(lab.beatMs * 0.3);
    await lab.sleep(lab.beatMs * 0.04);
    setDelay(0);
    await held.release();

    await lab.until(lab.beatMs * 2, () => next.state === 'resolved', 'the next turn');

    const tookMs = next.atMs! - startedMs;
    claim(
      tookMs <= lab.beatMs * 0.36 + lab.slackMs,
      `granted ${tookMs} ms after the call, ${lab.beatMs} to a heartbeat`,
    );
  }),

  promised(13, undefined, async (lab) => {
    const [a, b] = (await lab.replicas(2)) as [TestReplica, TestReplica];
    // An attempt waits for half a period. Nothing may have to be put right by the next heartbeat.
    const retryMs = lab.beatMs * 0.75 + lab.slackMs;
    await lab.nextBeat(a);
    a.loseAnswers({ next: 1, of: 'apply' });
    const turn = await lab.within(retryMs, lab.take(a, 'k'), 'a reservation whose answer was lost');
    claimEqual(await lab.places(), 1, 'places taken');
    const next = lab.follow(lab.take(b, 'k'));
    await lab.sleep(lab.slackMs);
    await lab.nextBeat(a);

    a.loseAnswers({ next: 1, of: 'apply' });
    const released = lab.within(retryMs, turn.release(), 'a release whose answer was lost');
    await lab.until(lab.slackMs, () => next.state === 'resolved', 'the next turn');
    await released;
    await lab.watch(lab.beatMs * 2);

    claim(believes(next.value!), 'the repeated release took the turn of somebody else');
    await next.value?.release();
    claimEqual(await lab.places(), 0, 'places left behind');
  }),

  promised(13, 'also a candidacy', async (lab) => {
    const a = await lab.replica();
    await lab.nextBeat(a);
    a.loseAnswers({ next: 1, of: 'apply' });

    const leadership = await lab.within(lab.beatMs + lab.slackMs, lab.tryLead(a, 'name'), 'an attempt to lead');

    claim(leadership !== null, 'nobody leads, and the attempt found somebody leading: itself');
    await leadership.resign();
    claimEqual(await lab.places(), 0, 'places left behind');
  }),

  promised(13, 'also a request that reaches the store twice, at once or after others', async (lab) => {
    for (const afterMs of [0, lab.beatMs / 4]) {
      const [a, b] = (await lab.replicas(2)) as [TestReplica, TestReplica];
      const key = `k${afterMs}`;
      a.repeatRequests({ next: 1, of: 'apply' }, afterMs);
      const turn = await lab.take(a, key);
      await turn.release();
      const other = await lab.take(a, `${key} other`);
      await lab.sleep(lab.beatMs / 3);

      const next = await lab.atOnce(lab.take(b, key), 'the turn of another replica');
      await Promise.all([next.release(), other.release()]);
      claimEqual(await lab.places(), 0, 'places left behind');
    }
  }),

  promised(14, undefined, async (lab) => {
    const [a, b, c] = (await lab.replicas(3)) as [TestReplica, TestReplica, TestReplica];
    const turn = await lab.take(a, 'held');
    const leadership = await lab.lead(a, 'name');
    const busy = await lab.take(c, 'waited for');
    const waiting = lab.follow(lab.take(a, 'waited for'));
    await lab.sleep(lab.slackMs);
    const successors = [lab.take(b, 'held'), lab.lead(b, 'name')];
    const behind = lab.take(b, 'waited for');
    await lab.sleep(lab.slackMs);

    const stopped = a.coordinator.stop();
    claimEqual([lossOf(turn), lossOf(leadership)], ['stopped', 'stopped'], 'why they were lost');
    await lab.atOnce(Promise.all([stopped, ...successors]), 'the hand-over of what a stopped replica held');
    await busy.release();
    await lab.atOnce(behind, 'the turn behind the ticket of a stopped replica');

    claimEqual([waiting.state, waiting.error], ['rejected', 'stopped'], 'the call that waited');
  }),
];
