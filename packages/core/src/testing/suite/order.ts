import type { Ticket } from '../../coordination/types.js';
import type { TestReplica } from '../conformance.js';
import { claim, claimEqual, claimRising } from './claims.js';
import { promised } from './define.js';
import { believes, type Lab } from './Lab.js';

interface Granted {
  readonly seq: number;
  readonly fence: number;
}

/** Acquires every ticket at once, holds each turn for a moment, and tells in which order they were granted. */
async function runAll(lab: Lab, tickets: readonly (readonly [TestReplica, Ticket])[], holdMs = 1): Promise<Granted[]> {
  const granted: Granted[] = [];
  await Promise.all(
    tickets.map(async ([replica, ticket]) => {
      const turn = await lab.acquire(replica, ticket);
      granted.push({ seq: ticket.seq, fence: turn.fence });
      await lab.sleep(holdMs);
      await turn.release();
    }),
  );
  return granted;
}

/** Reserves `count` places with `replicas` in turn, each when the one before was taken. */
async function reserveInTurn(replicas: readonly TestReplica[], key: string, count: number) {
  const tickets: [TestReplica, Ticket][] = [];
  for (let n = 0; n < count; n++) {
    const replica = replicas[n % replicas.length]!;
    tickets.push([replica, await replica.coordinator.reserve(key)]);
  }
  return tickets;
}

const seqs = (tickets: readonly (readonly [TestReplica, Ticket])[]): number[] => tickets.map(([, { seq }]) => seq);

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
    const second = lab.take(a, 'k');
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

const seqsOf = (granted: readonly Granted[]): number[] => granted.map(({ seq }) => seq);

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
