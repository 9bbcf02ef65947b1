import type { TestReplica } from '../conformance.js';
import { claim, claimEqual } from './claims.js';
import { fact } from './define.js';
import { believes, lossOf } from './Lab.js';

export const lifecycle = [
  // C-35
  fact('A forgotten ticket is given back after its time at the head, with an event', async (lab) => {
    const a = await lab.replica({ ticketTtlMs: lab.leaseMs });
    const b = await lab.replica();
    const leaked: unknown[] = [];
    a.coordinator.on('ticketLeaked', (event) => leaked.push(event));
    const { seq } = await a.coordinator.reserve('k');
    const next = lab.follow(lab.take(b, 'k'));

    await lab.watch(lab.leaseMs - lab.slackMs);
    claimEqual([leaked, next.state], [[], 'waiting'], 'what was told and granted before its time');
    await lab.watch(lab.beatMs + 2 * lab.slackMs);

    claimEqual(leaked, [{ key: 'k', seq }], 'what was told');
    claimEqual(next.state, 'resolved', 'the next turn');
  }),

  fact('A turn held for long is told of once, and stays held', async (lab) => {
    const replica = await lab.replica({ heldWarnMs: lab.leaseMs });
    const told: { key: string; fence: number }[] = [];
    replica.coordinator.on('held', ({ key, fence }) => told.push({ key, fence }));
    const turn = await lab.take(replica, 'k');

    await lab.watch(lab.leaseMs * 3);

    claimEqual(told, [{ key: 'k', fence: turn.fence }], 'what was told');
    claim(believes(turn), 'the turn was lost');
  }),

  fact('Calls before start() and after stop() are rejected, and say so', async (lab) => {
    const replica = await lab.replica({ start: false });
    const { coordinator } = replica;
    const calls = () => [
      coordinator.reserve('k'),
      coordinator.acquireTurn({ key: 'k', seq: 1 }),
      coordinator.lead('name'),
      coordinator.tryLead('name'),
      coordinator.accept('k', { body: '' }),
    ];

    for (const call of await Promise.allSettled(calls())) {
      claimEqual(call.status === 'rejected' && call.reason.code, 'not-started', 'a call before start()');
    }
    await coordinator.stop();
    await coordinator.start();
    const turn = await lab.take(replica, 'k');
    await coordinator.stop();
    for (const call of await Promise.allSettled(calls())) {
      claimEqual(call.status === 'rejected' && call.reason.code, 'stopped', 'a call after stop()');
    }
    claimEqual(lossOf(turn), 'stopped', 'why the turn was lost');
    await lab.atOnce(turn.release(), 'a release after stop()');
  }),

  fact('start() and stop() can be repeated, called at once, and followed by a new start', async (lab) => {
    const [replica, other] = [await lab.replica({ start: false }), await lab.replica()];
    const { coordinator } = replica;

    await Promise.all([coordinator.start(), coordinator.start()]);
    await coordinator.start();
    claimEqual(replica.counts.requests.join, 1, 'joins of three starts');
    const first = await lab.take(replica, 'k');
    const next = lab.follow(lab.take(other, 'k'));
    await Promise.all([coordinator.stop(), coordinator.stop()]);
    await coordinator.stop();
    claimEqual(replica.counts.requests.leave, 1, 'leaves of three stops');
    claimEqual(replica.timers, 0, 'timers that are set after stop()');
    await lab.until(lab.slackMs, () => next.state === 'resolved', 'the turn of the other replica');
    await next.value?.release();

    await coordinator.start();
    const second = await lab.atOnce(lab.take(replica, 'k'), 'a turn after the new start');
    claim(second.fence > first.fence, 'the fence of the new life is not greater');
    claim(!believes(first), 'a turn of the former life is believed in');
    const stopping = coordinator.stop();
    const starting = coordinator.start();
    await stopping;
    await starting;
    await (await lab.atOnce(lab.take(replica, 'k'), 'a turn after stop() and start() at once')).release();
  }),

  fact('stop() ends in time although nothing answers', async (lab) => {
    const replica = await lab.replica();
    await lab.take(replica, 'k');
    replica.cut();

    await lab.within(lab.leaseMs + lab.slackMs, replica.coordinator.stop(), 'stop() without an answer');

    claimEqual(replica.timers, 0, 'timers that are set after stop()');
  }),

  fact('A listener that throws disturbs nobody', async (lab) => {
    const [a, b] = (await lab.replicas(2)) as [TestReplica, TestReplica];
    const told: string[] = [];
    for (const event of ['elected', 'lost', 'late', 'superseded', 'unavailable'] as const) {
      a.coordinator.on(event, () => {
        throw new Error('the trouble of the listener');
      });
      a.coordinator.on(event, (() => Promise.reject(new Error('the trouble of the listener'))) as () => void);
      a.coordinator.on(event, () => told.push(event));
    }
    const off = a.coordinator.on('elected', () => told.push('not any more'));
    off();
    off();
    const leader = await lab.lead(a, 'name');
    const next = lab.follow(lab.lead(b, 'name'));

    a.freeze();
    await lab.sleep(lab.deathBoundMs);
    a.thaw();
    await lab.watch(lab.leaseMs);

    claimEqual(next.state, 'resolved', 'the election of the next');
    claim(!believes(leader), 'the leader believes in what it lost');
    for (const event of ['elected', 'lost', 'superseded']) claim(told.includes(event), `${event} was not told`);
    claim(!told.includes('not any more'), 'a listener heard of an event after it was taken off');
    await (await lab.atOnce(lab.take(a, 'k'), 'a turn after all that')).release();
  }),
];
