import type { Ticket } from '../../coordination/types.js';
import type { TestReplica } from '../conformance.js';
import { claim, claimEqual, claimRising } from './claims.js';
import { promised } from './define.js';
import { believes } from './Lab.js';
import { reserveInTurn, runAll, seqs, seqsOf } from './turns.js';

export const order = [
  promised(1, undefined, async (lab) => {
    const replicas = await lab.replicas(3);
    const inside = new Map<string, number>();
    const work = async (replica: TestReplica, key: string): Promise<void> => {
      const turn = await lab.take(replica, key);
      inside.set(key, (inside.get(key) ?? 0) + 1);
      claimEqual(inside.get(key), 1, `turns of ${key} at one time`);
      await lab.sleep(lab.mesh.clock.random() * lab.slackMs);
      turn.assertHeld();
      inside.set(key, (inside.get(key) ?? 0) - 1);
      await turn.release();
    };

    const jobs = Array.from({ length: 60 }, (_, n) => work(replicas[n % 3]!, `k${n % 4}`));

    await lab.within(60 * lab.slackMs * 4, Promise.all(jobs), '60 turns of 4 keys');
  }),

  promised(1, 'also while the holder is cut off, and after it', async (lab) => {
    const [a, b] = (await lab.replicas(2)) as [TestReplica, TestReplica];
    const turn = await lab.take(a, 'k');
    const next = lab.follow(lab.take(b, 'k'));

    a.cut();
    await lab.watch(lab.deathBoundMs, () => next.state !== 'waiting');
    claimEqual(next.state, 'resolved', 'the next turn');
    claim(turn.signal.aborted, 'the signal of the holder that was cut off has not aborted');
    a.heal();
    await lab.watch(lab.leaseMs);

    claim(!believes(turn), 'the holder believes again in what it lost');
    claim(believes(next.value!), 'the new holder lost its turn to the old one');
  }),

  promised(1, 'also when requests come twice, answers are lost and everything is slow', async (lab) => {
    const replicas = await lab.replicas(3);
    for (const replica of replicas) {
      replica.delay({ minMs: 0, maxMs: lab.beatMs / 10 });
      replica.loseAnswers(0.2);
      replica.repeatRequests(0.3, lab.beatMs / 3);
      replica.dropPushes(0.2);
    }

    const work = async (replica: TestReplica, n: number): Promise<number> => {
      const turn = await lab.take(replica, `k${n % 3}`);
      await lab.sleep(lab.beatMs / 100);
      lab.claimExclusive();
      await turn.release();
      return turn.fence;
    };
    const fences = await lab.within(
      40 * lab.leaseMs,
      Promise.all(Array.from({ length: 36 }, (_, n) => work(replicas[n % 3]!, n))),
      '36 turns on a bad network',
    );

    claimEqual(new Set(fences).size, 36, 'different fences');
  }),

  promised(2, undefined, async (lab) => {
    const replicas = await lab.replicas(3);
    const tickets = await reserveInTurn(replicas, 'k', 12);

    const scrambled = [5, 0, 11, 3, 8, 1, 10, 2, 9, 4, 7, 6].map((at) => tickets[at]!);
    const granted = await lab.within(lab.leaseMs, runAll(lab, scrambled), '12 turns');

    claimEqual(seqsOf(granted), seqs(tickets), 'the order of the turns, by seq');
    claimRising(seqs(tickets), 'seqs in the order of the reservations');
  }),

  promised(2, 'also of reservations that replicas made at once, and of places given up in between', async (lab) => {
    const replicas = await lab.replicas(3);
    const held = await lab.take(replicas[0]!, 'k');
    for (const replica of replicas) replica.delay({ minMs: 0, maxMs: lab.beatMs / 10 });
    const tickets = await Promise.all(
      Array.from({ length: 15 }, async (_, n): Promise<[TestReplica, Ticket]> => {
        const replica = replicas[n % 3]!;
        return [replica, await replica.coordinator.reserve('k')];
      }),
    );

    const given = tickets.filter((_, n) => n % 4 === 1);
    const kept = tickets.filter((_, n) => n % 4 !== 1);
    for (const [replica, ticket] of given) {
      const abandoned = replica.coordinator.acquireTurn(ticket, { signal: AbortSignal.abort('not needed') });
      await abandoned.catch(() => {});
    }
    const all = runAll(lab, kept, lab.beatMs / 20);
    await held.release();

    claimRising(seqsOf(await lab.within(lab.leaseMs * 2, all, 'the turns that are left')), 'seqs of the turns');
  }),

  promised(3, undefined, async (lab) => {
    const [replica, other] = (await lab.replicas(2)) as [TestReplica, TestReplica];
    const first = await lab.take(other, 'k0');
    const reserved = Array.from({ length: 300 }, (_, n) => replica.coordinator.reserve(`k${n % 3}`));

    const tickets = await lab.within(lab.beatMs, Promise.all(reserved), '300 reservations');
    const ofOneKey = tickets
      .filter(({ key }) => key === 'k0')
      .map((ticket): [TestReplica, Ticket] => [replica, ticket]);
    const all = runAll(lab, [...ofOneKey].reverse());
    await first.release();

    claimRising(
      tickets.map(({ seq }) => seq),
      'seqs in the order of the calls',
    );
    claimEqual(seqsOf(await lab.within(lab.leaseMs * 2, all, '100 turns')), seqs(ofOneKey), 'the order of the turns');
  }),

  promised(3, 'also on a network that is slow, loses answers and repeats requests', async (lab) => {
    const replica = await lab.replica();
    replica.delay({ minMs: 0, maxMs: lab.beatMs / 5 });
    replica.loseAnswers(0.2);
    replica.repeatRequests(0.3, lab.beatMs / 5);

    const reserved: Promise<Ticket>[] = [];
    for (let n = 0; n < 60; n++) {
      reserved.push(replica.coordinator.reserve('k'));
      await lab.sleep(lab.beatMs / 100);
    }
    const tickets = await lab.within(lab.leaseMs * 3, Promise.all(reserved), '60 reservations');
    replica.loseAnswers(0);
    replica.repeatRequests(0);
    replica.delay({ minMs: 0, maxMs: 0 });

    claimRising(
      tickets.map(({ seq }) => seq),
      'seqs in the order of the calls',
    );
    for (const ticket of tickets) await (await lab.acquire(replica, ticket, { timeoutMs: lab.leaseMs })).release();
    await lab.sleep(lab.beatMs * 2);
    claimEqual(await lab.places(), 0, 'places left behind');
  }),
];
