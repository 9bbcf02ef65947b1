import type { ChatTurn, Ticket } from '../../coordination/types.js';
import type { TestReplica } from '../conformance.js';
import { claim, claimEqual } from './claims.js';
import { promised } from './define.js';
import type { Lab } from './Lab.js';

const MANY_HELD = 5000;
const MANY_USED = 10_000;

/** Heartbeats of a replica during 12 of its periods; no other request may be among them. */
async function beatsOf(lab: Lab, replica: TestReplica): Promise<number> {
  await lab.nextBeat(replica);
  const { requests } = await lab.counted(replica, () => lab.sleep(lab.beatMs * 12.5));
  const { beat, ...others } = requests;
  claimEqual(
    others,
    { join: 0, apply: 0, leave: 0, waiting: 0, pace: 0, subscribe: 0, inspect: 0 },
    'requests besides heartbeats',
  );
  return beat;
}

export const cost = [
  promised(24, undefined, async (lab) => {
    const [idle, busy] = (await lab.replicas(2)) as [TestReplica, TestReplica];
    for (let n = 0; n < MANY_HELD; n += 250) {
      await Promise.all(Array.from({ length: 250 }, (_, at) => lab.take(busy, `k${n + at}`)));
      // Thousands of turns in one task would be an event loop that is blocked.
      await lab.sleep(1);
    }
    await lab.sleep(lab.beatMs);

    const [none, many] = await Promise.all([beatsOf(lab, idle), beatsOf(lab, busy)]);

    // Fewer come where the machine is busy; that is no cost.
    claim(none >= 6 && none <= 13, `${none} heartbeats in 12.5 periods with nothing held`);
    claim(many >= 6 && many <= 13, `${many} heartbeats in 12.5 periods with ${MANY_HELD} keys held`);
  }),

  promised(
    24,
    'one for each shard',
    async (lab) => {
      const replica = await lab.replica();
      await Promise.all(Array.from({ length: 60 }, (_, n) => lab.take(replica, `k${n}`)));
      await lab.sleep(lab.beatMs);

      const beats = await beatsOf(lab, replica);

      claim(beats >= 18 && beats <= 39, `${beats} heartbeats in 12.5 periods over 3 shards`);
    },
    { shards: 3 },
  ),

  promised(25, undefined, async (lab) => {
    const replicas = (await lab.replicas(2)) as [TestReplica, TestReplica];
    const [a, b] = replicas;
    await lab.sleep(lab.beatMs * 2);
    const timers = replicas.map((replica) => replica.timers);
    const use = async (n: number): Promise<void> => {
      const turn = await lab.take(n % 2 === 0 ? a : b, `k${n}`);
      await turn.release();
    };

    for (let n = 0; n < MANY_USED; n += 250) {
      await Promise.all(Array.from({ length: 250 }, (_, at) => use(n + at)));
      await lab.sleep(1);
    }
    const busy = await lab.take(a, 'busy');
    for (let n = 0; n < 100; n++) {
      const ticket = await b.coordinator.reserve('busy');
      await b.coordinator.acquireTurn(ticket, { timeoutMs: 0 }).catch(() => {});
    }
    await busy.release();
    const led = await lab.lead(a, 'name');
    await led.resign();
    await lab.sleep(lab.beatMs * 2);

    const views = await lab.mesh.inspect();
    claimEqual(
      views.flatMap(({ queues }) => queues),
      [],
      'queues left behind',
    );
    claimEqual(
      views.flatMap((view) => view.replicas.map(({ tickets }) => tickets)),
      [0, 0],
      'tickets on record',
    );
    claimEqual(
      views.map(({ remembered, parked }) => [remembered, parked.length]),
      [[0, 0]],
      'ids and parked messages',
    );
    claimEqual(
      replicas.map((replica) => replica.timers),
      timers,
      'timers that are set',
    );
  }),

  promised(25, 'ids of finished messages are forgotten when their time is over', async (lab) => {
    const a = await lab.replica({ dedupeMs: lab.leaseMs });
    for (let n = 0; n < 20; n++) {
      const ticket = await a.coordinator.accept(`k${n}`, { id: 'id', body: 'text' });
      await (await lab.acquire(a, ticket!)).release();
    }
    const remembered = async (): Promise<number> =>
      (await lab.mesh.inspect()).reduce((sum, view) => sum + view.remembered, 0);
    claimEqual(await remembered(), 20, 'ids remembered within their time');

    await lab.sleep(lab.leaseMs + lab.beatMs * 2 + lab.slackMs);

    claimEqual(await remembered(), 0, 'ids remembered after their time');
  }),

  promised(26, undefined, async (lab) => {
    const [a, b, c, d] = (await lab.replicas(4)) as [TestReplica, TestReplica, TestReplica, TestReplica];
    const all = [a, b, c, d];
    const applies = async (replica: TestReplica, act: () => Promise<unknown>): Promise<number> =>
      (await lab.counted(replica, act)).requests.apply;
    let ticket: Ticket | undefined;
    let turn: ChatTurn | undefined;

    claimEqual(await applies(a, async () => (ticket = await a.coordinator.reserve('k'))), 1, 'requests of reserve()');
    claimEqual(await applies(a, async () => (turn = await lab.acquire(a, ticket!))), 0, 'requests of acquireTurn()');
    claimEqual(await applies(a, async () => turn!.release()), 1, 'requests of release()');

    let turns: ChatTurn[] = [];
    const many = Array.from({ length: 100 }, (_, n) => `k${n}`);
    const taking = async (): Promise<void> => {
      turns = await Promise.all(many.map((key) => lab.take(a, key)));
    };
    claimEqual(await applies(a, taking), 1, 'requests of 100 turns taken at once');
    claimEqual(await applies(a, () => Promise.all(turns.map((each) => each.release()))), 1, 'requests of 100 releases');

    const held = await lab.take(a, 'k');
    const next = [b, c, d].map((replica) => lab.follow(lab.take(replica, 'k')));
    await lab.sleep(lab.slackMs);
    const before = all.map((replica) => structuredClone(replica.counts));
    await held.release();
    await lab.until(lab.slackMs, () => next[0]!.state === 'resolved', 'the hand-over');
    claimEqual(
      all.map((replica, at) => replica.counts.requests.apply - before[at]!.requests.apply),
      [1, 0, 0, 0],
      'requests of a hand-over between replicas',
    );
    claimEqual(
      all.map((replica, at) => replica.counts.pushes.grant - before[at]!.pushes.grant),
      [0, 1, 0, 0],
      'pushes of a hand-over between replicas',
    );
  }),

  promised(26, 'a hand-over within one replica is one step and no push', async (lab) => {
    const [a, b] = (await lab.replicas(2)) as [TestReplica, TestReplica];
    const held = await lab.take(a, 'k');
    const next = lab.take(a, 'k');
    const last = lab.follow(lab.take(b, 'k'));
    await lab.sleep(lab.slackMs);

    const { requests, pushes } = await lab.counted(a, async () => {
      await held.release();
      await next;
    });

    claimEqual([requests.apply, pushes.grant], [1, 0], 'requests and pushes');
    claimEqual(last.state, 'waiting', 'the last turn');
  }),
];
