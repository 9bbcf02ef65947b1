import type { TestReplica } from '../conformance.js';
import { claim, claimEqual, claimRejects } from './claims.js';
import { promised } from './define.js';
import { believes, lossOf } from './Lab.js';

export const outage = [
  promised(15, undefined, async (lab) => {
    const replicas = (await lab.replicas(2)) as [TestReplica, TestReplica];
    const [a, b] = replicas;
    const told: string[] = [];
    b.coordinator.on('unavailable', () => told.push('unavailable'));
    b.coordinator.on('available', () => told.push('available'));
    const turn = await lab.take(a, 'k');
    const unused = await b.coordinator.reserve('k');
    const waiting = [
      lab.follow(lab.take(b, 'k')),
      lab.follow(b.coordinator.acquireTurn(await b.coordinator.reserve('k'), { timeoutMs: lab.leaseMs * 9 })),
    ];
    const cutAtMs = lab.nowMs;
    for (const replica of replicas) replica.cut();
    await lab.sleep(lab.beatMs);
    const during = [
      lab.follow(b.coordinator.reserve('other')),
      lab.follow(b.coordinator.tryLead('name')),
      lab.follow(b.coordinator.accept('other', { id: '1', body: '' })),
    ];
    const campaign = lab.follow(lab.lead(b, 'campaign'));

    await lab.watch(lab.leaseMs * 2);
    for (const call of [...waiting, ...during]) {
      claimEqual([call.state, call.error], ['rejected', 'unavailable'], 'a call that waited during the outage');
      claim(
        call.atMs! - cutAtMs <= lab.leaseMs + lab.slackMs,
        `rejected only ${call.atMs! - cutAtMs} ms into the outage`,
      );
    }
    claimEqual(campaign.state, 'waiting', 'a campaign');
    const late = [() => b.coordinator.reserve('k'), () => b.coordinator.acquireTurn(unused)];
    for (const call of late) {
      await claimRejects(
        lab.within<unknown>(lab.slackMs, call(), 'a call during the outage'),
        ['unavailable'],
        'a call',
      );
    }
    claimEqual(lossOf(turn), 'expired', 'why the turn was lost');
    for (const replica of replicas) replica.heal();

    await lab.until(lab.leaseMs, () => campaign.state === 'resolved', 'the campaign after the outage');
    for (const replica of [a, b, a]) {
      const turnAfter = await lab.onceAvailable(lab.leaseMs, () => lab.take(replica, 'k'), 'a turn after the outage');
      await turnAfter.release();
    }
    await campaign.value?.resign();
    await lab.sleep(lab.beatMs * 2);
    claimEqual(await lab.places(), 0, 'places left behind');
    claimEqual(told, ['unavailable', 'available'], 'what was told');
  }),

  promised(15, 'also where heartbeats are answered, and what is asked is not', async (lab) => {
    const [a, b] = (await lab.replicas(2)) as [TestReplica, TestReplica];
    const told: string[] = [];
    for (const event of ['unavailable', 'lost', 'superseded'] as const) b.coordinator.on(event, () => told.push(event));
    const turn = await lab.take(b, 'held');
    b.loseAnswers({ next: 100_000, of: 'apply' });
    const sinceMs = lab.nowMs;
    const long = lab.follow(b.coordinator.accept('k', { id: '1', body: 'x'.repeat(100_000) }));
    const calls = [long, lab.follow(b.coordinator.reserve('k')), lab.follow(b.coordinator.tryLead('name'))];

    await lab.watch(lab.leaseMs * 3, () => calls.every(({ state }) => state !== 'waiting'));
    for (const [at, { atMs = Number.POSITIVE_INFINITY, state }] of calls.entries()) {
      const limitMs = (at === 0 ? 1 : 2) * lab.leaseMs + lab.beatMs + 1000 + lab.slackMs;
      claimEqual(state, 'rejected', 'what became of a call');
      claim(atMs - sinceMs <= limitMs, `rejected only after ${atMs - sinceMs} ms`);
    }
    const errors = calls.map(({ error }) => error);
    claimEqual(errors, ['too-long', 'unavailable', 'unavailable'], 'what the calls were told');
    claim(believes(turn), 'a turn was lost');
    b.loseAnswers(0);

    await (await lab.within(lab.beatMs * 3 + lab.slackMs, lab.take(a, 'k'), 'the next turn')).release();
    claim(
      (await a.coordinator.accept('k', { id: '1', body: '' })) !== null,
      'what was refused made the next a duplicate',
    );
    claimEqual(told, [], 'what was told');
  }),

  promised(15, 'an outage shorter than the trust is not seen at all', async (lab) => {
    const [a, b] = (await lab.replicas(2)) as [TestReplica, TestReplica];
    const told: string[] = [];
    for (const event of ['unavailable', 'lost', 'superseded'] as const) {
      a.coordinator.on(event, () => told.push(event));
      b.coordinator.on(event, () => told.push(event));
    }
    const turn = await lab.take(a, 'k');
    await lab.nextBeat(a);
    await lab.nextBeat(b);

    for (const replica of [a, b]) replica.cut();
    const calls = [lab.follow(lab.take(b, 'other')), lab.follow(lab.take(b, 'k')), lab.follow(turn.release())];
    await lab.sleep(lab.trustMs - 2.5 * lab.beatMs - lab.slackMs);
    claimEqual(
      calls.map(({ state }) => state),
      ['waiting', 'waiting', 'waiting'],
      'calls during the outage',
    );
    for (const replica of [a, b]) replica.heal();
    await lab.watch(lab.beatMs * 1.5 + lab.slackMs);

    claimEqual(
      calls.map(({ state }) => state),
      ['resolved', 'resolved', 'resolved'],
      'calls after the outage',
    );
    claimEqual(told, [], 'what was told');
  }),

  promised(15, 'busy is never reported as down', async (lab) => {
    const [a, b] = (await lab.replicas(2)) as [TestReplica, TestReplica];
    let told = 0;
    b.coordinator.on('unavailable', () => told++);
    for (const replica of [a, b]) replica.delay({ minMs: 0, maxMs: lab.beatMs / 8 });
    const turn = await lab.take(a, 'k');
    const patient = lab.follow(lab.take(b, 'k'));
    const timed = await b.coordinator.reserve('k');
    const startedMs = lab.nowMs;

    const limited = lab.follow(b.coordinator.acquireTurn(timed, { timeoutMs: lab.leaseMs * 1.5 }));
    await lab.watch(lab.leaseMs * 3);

    claimEqual([patient.state, told], ['waiting', 0], 'the call without a limit, and times told to be unavailable');
    claimEqual([limited.state, limited.error], ['rejected', 'timeout'], 'the call with a limit');
    const lateMs = limited.atMs! - startedMs - lab.leaseMs * 1.5;
    claim(Math.abs(lateMs) <= lab.slackMs, `the limit struck ${lateMs} ms late`);
    await turn.release();
    await lab.until(lab.beatMs + lab.slackMs, () => patient.state === 'resolved', 'the call without a limit');
  }),

  promised(15, 'a start without an answer is refused in time, and can be made again', async (lab) => {
    const replica = await lab.replica({ start: false });
    replica.cut();

    const started = lab.within(
      lab.leaseMs * 1.5 + lab.slackMs,
      replica.coordinator.start(),
      'a start without an answer',
    );
    await claimRejects(started, ['unavailable'], 'a start without an answer');
    replica.heal();

    await lab.atOnce(replica.coordinator.start(), 'the next start');
    await (await lab.atOnce(lab.take(replica, 'k'), 'a turn')).release();
  }),
];

export const replacement = [
  promised(16, undefined, async (lab) => {
    for (const hears of [true, false]) {
      const replicaId = `same ${hears}`;
      const older = await lab.replica({ replicaId });
      let told = 0;
      older.coordinator.on('replaced', () => told++);
      const turn = await lab.take(older, replicaId);
      const leadership = await lab.lead(older, replicaId);
      const busy = await lab.take(await lab.replica(), `busy ${replicaId}`);
      const waiting = lab.follow(lab.take(older, busy.key));
      if (!hears) older.cut('pushes');

      const newer = await lab.replica({ replicaId });
      newer.coordinator.on('replaced', () => told++);
      const next = lab.within(lab.beatMs + lab.slackMs, lab.take(newer, replicaId), 'a turn of the newer start');
      await lab.until(lab.beatMs + lab.slackMs, () => told > 0, 'the older start says that it was replaced');
      claimEqual([lossOf(turn), lossOf(leadership)], ['replaced', 'replaced'], 'why the older lost what it held');
      claimEqual(waiting.error, 'replaced', 'why a call that waited was rejected');
      await claimRejects(older.coordinator.reserve('k'), ['replaced'], 'a call of the older start');
      await claimRejects(older.coordinator.start(), ['replaced'], 'a second start of the older');
      await next;
      await lab.watch(lab.leaseMs * 2);

      claim(believes(await next), 'the newer start lost its turn');
      claimEqual([told, newer.counts.requests.join], [1, 1], 'replacements told of, and joins of the newer');
    }
  }),

  promised(16, 'the older start cannot hear of it, and holds a key', async (lab) => {
    const older = await lab.replica({ replicaId: 'same' });
    const other = await lab.replica();
    const turn = await lab.take(older, 'k');
    await lab.sleep(lab.leaseMs);
    await lab.nextBeat(older);
    older.cut();

    const newer = await lab.replica({ replicaId: 'same' });
    const next = await lab.queue(newer, 'k');
    const last = await lab.queue(other, 'k');
    await lab.watch(lab.deathBoundMs, () => next.state !== 'waiting');

    claimEqual([next.state, lossOf(turn)], ['resolved', 'expired'], 'the turn of the newer, and of the older start');
    older.heal();
    await lab.watch(lab.leaseMs);
    claim(believes(next.value!), 'the newer start lost its turn');
    await next.value?.release();
    await lab.until(lab.slackMs, () => last.state === 'resolved', 'the last turn');
    await claimRejects(older.coordinator.reserve('k'), ['replaced'], 'a call of the older start');
  }),

  promised(16, 'an older start that slept through its death does not take the name back', async (lab) => {
    const older = await lab.replica({ replicaId: 'same' });
    await lab.replica();
    let told = 0;
    older.coordinator.on('replaced', () => told++);
    await lab.take(older, 'k');
    older.cut('pushes');
    older.freeze();
    await lab.sleep(lab.leaseMs);
    const newer = await lab.replica({ replicaId: 'same' });
    const turn = await lab.within(lab.deathBoundMs, lab.take(newer, 'k'), 'a turn of the newer start');
    await lab.sleep(lab.leaseMs * 2);

    older.thaw();
    await lab.watch(lab.leaseMs * 2);

    claimEqual(told, 1, 'times that the older start said to be replaced');
    await claimRejects(older.coordinator.reserve('k'), ['replaced'], 'a call of the older start');
    claim(believes(turn), 'the newer start lost its turn');
  }),

  promised(16, 'two starts at the same moment: one of them goes on', async (lab) => {
    const both = [
      await lab.replica({ replicaId: 'same', start: false }),
      await lab.replica({ replicaId: 'same', start: false }),
    ];
    let told = 0;
    for (const { coordinator } of both) coordinator.on('replaced', () => told++);

    const starts = await Promise.allSettled(both.map(({ coordinator }) => coordinator.start()));
    await lab.watch(lab.leaseMs * 2);
    const turns = await Promise.allSettled(both.map((replica) => lab.take(replica, 'k')));

    claim(
      starts.some(({ status }) => status === 'fulfilled'),
      'neither start went through',
    );
    claimEqual(turns.filter(({ status }) => status === 'fulfilled').length, 1, 'replicas that go on');
    claim(told <= 1, 'both say that they were replaced');
  }),

  promised(16, 'a join that comes late, of a start that is over, takes nothing', async (lab) => {
    const before = await lab.replica({ replicaId: 'same', start: false });
    before.repeatRequests({ next: 1, of: 'join' }, lab.leaseMs);
    await before.coordinator.start();
    await before.coordinator.stop();
    const after = await lab.replica({ replicaId: 'same' });
    const turn = await lab.take(after, 'k');
    let told = 0;
    after.coordinator.on('replaced', () => told++);

    await lab.watch(lab.leaseMs * 3);

    claim(believes(turn), 'the newer start lost its turn to a late join');
    claimEqual(told, 0, 'how often it was told that it was replaced');
  }),

  promised(16, 'after a crash the name joins with a new epoch', async (lab) => {
    const before = await lab.replica({ replicaId: 'same' });
    const other = await lab.replica();
    const held = await lab.take(before, 'k');
    lab.follow(lab.take(before, 'k'));
    const epochs = async (): Promise<number[]> =>
      (await lab.mesh.inspect())
        .flatMap(({ replicas }) => replicas)
        .flatMap((row) => (row.replicaId === 'same' && !row.replaced ? [row.epoch] : []));
    const [oldEpoch = 0] = await epochs();
    await lab.sleep(lab.leaseMs);
    before.crash();

    const after = await lab.replica({ replicaId: 'same' });
    const newEpoch = (await epochs()).at(-1) ?? 0;
    claim(newEpoch > oldEpoch, `epoch ${newEpoch} after ${oldEpoch}`);
    const turn = await lab.within(lab.deathBoundMs, lab.take(after, 'k'), 'a turn on what the crashed life held');
    const next = lab.follow(lab.take(other, 'k'));
    await lab.watch(lab.leaseMs * 2);

    claim(turn.fence > held.fence, `fence ${turn.fence} after ${held.fence}`);
    claim(believes(turn), 'the new life lost its turn to the old one');
    await turn.release();
    await lab.until(lab.slackMs, () => next.state === 'resolved', 'the next turn');
  }),
];
