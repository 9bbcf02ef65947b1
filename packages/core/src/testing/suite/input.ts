import type { AcquireTurnOptions, Ticket } from '../../coordination/types.js';
import type { TestReplica } from '../conformance.js';
import { claim, claimEqual, claimRejects } from './claims.js';
import { fact } from './define.js';
import { believes } from './Lab.js';

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
  fact('A message that is too long is refused at once, and is not taken in', async (lab) => {
    const { coordinator } = await lab.replica();
    for (const body of ['x'.repeat(2 ** 20), 'ß'.repeat(2 ** 19)]) {
      await claimRejects(
        lab.atOnce(coordinator.accept('k', { id: '1', body }), 'an answer'),
        ['too-long'],
        'a message',
      );
    }
    await claimRejects(coordinator.reserve('k'.repeat(2 ** 20 + 1)), ['too-long'], 'a reservation under a long key');

    const ticket = await coordinator.accept('k', { id: '1', body: 'x'.repeat(2 ** 20 - 2) });

    claim(ticket !== null, 'one that was not taken in made the next a duplicate');
    await (await lab.acquire({ coordinator } as TestReplica, ticket)).release();
  }),

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

  // C-20
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
];
