import type { AcquireTurnOptions, Ticket } from '../../coordination/types.js';
import type { TestReplica } from '../conformance.js';
import { claim, claimEqual, claimRejects } from './claims.js';
import { fact } from './define.js';
import { believes, lossOf } from './Lab.js';

const ODD_KEYS = [
  '',
  ' ',
  ':',
  '::',
  'a:b',
  'a',
  'b',
  '{}',
  '{a}',
  '{b}a',
  '*',
  '>',
  '.',
  '..',
  'a.b',
  'a/b',
  '%',
  '%00',
  '\\',
  "'",
  '"',
  '"; --',
  '\n',
  '\r\n',
  '\t',
  '\u0000',
  '\u0000a',
  '\u0001\u0002\u001f\u007f',
  '\u00ff\u0100',
  'é',
  'e\u0301',
  'ß',
  'ss',
  'K',
  'k',
  '\u212a',
  '😀',
  '\ud83d',
  '\ude00',
  '\ufeff',
  '\uffff',
  '__proto__',
  'constructor',
  'null',
  'undefined',
  'c:a',
  'l:a',
  '#run',
  'x'.repeat(1_000_000),
  `${'x'.repeat(1_000_000)}y`,
];

export const input = [
  fact('Keys of any characters and length are different keys', async (lab) => {
    const [a, b] = (await lab.replicas(2)) as [TestReplica, TestReplica];

    const turns = await lab.within(
      lab.leaseMs,
      Promise.all(ODD_KEYS.map((key, n) => lab.take(n % 2 === 0 ? a : b, key))),
      'a turn of each key, all held at once',
    );
    claimEqual(
      turns.map(({ key }) => key.length),
      ODD_KEYS.map((key) => key.length),
      'the keys of the turns, by length',
    );
    claim(
      turns.every((turn, n) => turn.key === ODD_KEYS[n]),
      'a turn has another key than its ticket',
    );
    const leaders = await Promise.all(ODD_KEYS.slice(0, 20).map((name) => lab.tryLead(b, name)));
    claim(
      leaders.every((leader) => leader !== null),
      'a name collides with a key or with another name',
    );
    const behind = ODD_KEYS.map((key, n) => lab.follow(lab.take(n % 2 === 0 ? b : a, key)));
    await lab.sleep(lab.beatMs * 2);

    claim(turns.every(believes), 'a turn was lost');
    await Promise.all(turns.map((turn) => turn.release()));
    await lab.until(lab.leaseMs, () => behind.every(({ state }) => state === 'resolved'), 'the next turn of each key');
  }),

  fact('A ticket is acquired once, and also after a way through JSON', async (lab) => {
    const replica = await lab.replica();
    const ticket = await replica.coordinator.reserve('k');
    const turn = await lab.acquire(replica, JSON.parse(JSON.stringify(ticket)) as Ticket);

    await claimRejects(replica.coordinator.acquireTurn(ticket), ['ticket-used'], 'a held ticket');
    await turn.release();
    await claimRejects(replica.coordinator.acquireTurn(ticket), ['ticket-used'], 'a released ticket');
    const held = await lab.take(replica, 'k');
    const waiting = await replica.coordinator.reserve('k');
    const first = lab.follow(lab.acquire(replica, waiting));
    await claimRejects(replica.coordinator.acquireTurn(waiting), ['ticket-used'], 'a ticket somebody waits with');
    await held.release();
    await lab.until(lab.slackMs, () => first.state === 'resolved', 'the call that came first');
  }),

  fact('Tickets of others and tickets of nobody are refused and change nothing', async (lab) => {
    const [a, b] = (await lab.replicas(2)) as [TestReplica, TestReplica];
    const mine = await a.coordinator.reserve('k');
    const { seq } = mine;

    await claimRejects(b.coordinator.acquireTurn(mine), ['ticket-unknown'], 'a ticket of another replica');
    await claimRejects(a.coordinator.acquireTurn({ key: 'k', seq: seq + 1 }), ['ticket-unknown'], 'a forged ticket');
    await claimRejects(a.coordinator.acquireTurn({ key: 'other', seq }), ['ticket-unknown'], 'a ticket of another key');
    for (const odd of [undefined, null, 'k', {}, { key: 'k' }, { key: 1, seq }, { key: 'k', seq: 'x' }]) {
      const names = ['bad-input', 'ticket-unknown'];
      await claimRejects(a.coordinator.acquireTurn(odd as unknown as Ticket), names, 'what is no ticket');
    }

    const turn = await lab.atOnce(lab.acquire(a, mine), 'the turn of the right ticket');
    await turn.release();
    claimEqual(await lab.places(), 0, 'places left behind');
  }),

  fact('Arguments of the wrong type are refused by name', async (lab) => {
    const replica = await lab.replica();
    const { coordinator } = replica;
    type Any = (...args: unknown[]) => Promise<unknown>;
    const anything = coordinator as unknown as Record<'reserve' | 'lead' | 'tryLead' | 'accept', Any>;
    for (const odd of [undefined, null, 1, {}, Symbol('k')]) {
      for (const call of ['reserve', 'lead', 'tryLead'] as const) {
        const attempt = (async () => anything[call].call(coordinator, odd))();
        await claimRejects(attempt, ['bad-input'], `${call}(${typeof odd})`);
      }
      const attempt = (async () => anything.accept.call(coordinator, 'k', { body: odd }))();
      await claimRejects(attempt, ['bad-input'], `accept() with a body of ${typeof odd}`);
    }
    claimEqual(await lab.places(), 0, 'places left behind');
  }),

  fact('A limit that is no number of milliseconds is refused, and the ticket blocks nobody', async (lab) => {
    const [a, b] = (await lab.replicas(2)) as [TestReplica, TestReplica];
    for (const timeoutMs of [-1, Number.NaN, '5']) {
      const ticket = await a.coordinator.reserve('k');
      const options = { timeoutMs } as AcquireTurnOptions;

      await claimRejects(
        a.coordinator.acquireTurn(ticket, options),
        ['config', 'bad-input'],
        `a limit of ${timeoutMs}`,
      );
      await (await lab.within(lab.beatMs, lab.take(b, 'k'), 'the turn of another replica')).release();
    }
  }),

  fact('A limit of 0 takes what is free and waits for nothing', async (lab) => {
    const [a, b] = (await lab.replicas(2)) as [TestReplica, TestReplica];
    const turn = await lab.acquire(a, await a.coordinator.reserve('k'), { timeoutMs: 0 });
    const ticket = await b.coordinator.reserve('k');

    await claimRejects(lab.atOnce(lab.acquire(b, ticket, { timeoutMs: 0 }), 'the call'), ['timeout'], 'a busy key');
    await turn.release();
    await lab.acquire(b, await b.coordinator.reserve('k'), { timeoutMs: Number.POSITIVE_INFINITY });
  }),

  fact('A ticket whose acquire timed out or was aborted blocks nobody', async (lab) => {
    const [a, b, c] = (await lab.replicas(3)) as [TestReplica, TestReplica, TestReplica];
    const held = await lab.take(a, 'k');
    const abort = new AbortController();
    const waiting = async (): Promise<Ticket> => b.coordinator.reserve('k');
    const timed = lab.follow(b.coordinator.acquireTurn(await waiting(), { timeoutMs: lab.beatMs / 2 }));
    const aborted = lab.follow(b.coordinator.acquireTurn(await waiting(), { signal: abort.signal }));
    const already = b.coordinator.acquireTurn(await waiting(), { signal: AbortSignal.abort(new Error('no need')) });
    await claimRejects(already, ['no need'], 'a call with an aborted signal');
    const next = lab.follow(lab.take(c, 'k'));

    abort.abort(new Error('too slow'));
    await lab.sleep(lab.beatMs / 2 + lab.slackMs);
    claimEqual([timed.error, aborted.error], ['timeout', 'too slow'], 'why the calls were rejected');
    await held.release();
    await lab.until(lab.slackMs, () => next.state === 'resolved', 'the turn of the next replica');
    await next.value?.release();
    claimEqual(await lab.places(), 0, 'places left behind');

    const granted = await a.coordinator.reserve('k');
    const unneeded = a.coordinator.acquireTurn(granted, { signal: AbortSignal.abort(new Error('no need')) });
    await claimRejects(unneeded, ['no need'], 'a granted ticket with an aborted signal');
    await lab.atOnce(lab.take(b, 'k'), 'the turn behind a granted ticket that was given up');
  }),

  fact('A signal that aborts after the turn was acquired ends nothing', async (lab) => {
    const replica = await lab.replica();
    const abort = new AbortController();
    const turn = await lab.acquire(replica, await replica.coordinator.reserve('k'), { signal: abort.signal });

    abort.abort();
    await lab.sleep(lab.beatMs);

    claim(believes(turn), 'the turn was lost');
  }),

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
