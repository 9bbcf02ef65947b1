import type { CoordinatorEvents, Mailroom, MailTurn, Ticket } from '../../coordination/types.js';
import type { TestReplica } from '../conformance.js';
import { Crew } from './Crew.js';
import { claim, claimEqual, claimRejects } from './claims.js';
import { fact } from './define.js';
import type { Lab } from './Lab.js';

function mailOf({ coordinator }: TestReplica): Mailroom {
  const mailroom = coordinator as Partial<Mailroom>;
  for (const name of ['waiting', 'tell', 'onTold', 'parked', 'replay', 'drop', 'pace', 'finish'] as const) {
    claim(typeof mailroom[name] === 'function', `the coordinator has no ${name}(): it is no Mailroom`);
  }
  return mailroom as Mailroom;
}

async function accept(replica: TestReplica, key: string, body: string): Promise<Ticket> {
  const ticket = await replica.coordinator.accept(key, { id: body, body });
  claim(ticket !== null, `message ${body} was taken for a duplicate`);
  return ticket;
}

async function hold(lab: Lab, replica: TestReplica, ticket: Ticket): Promise<MailTurn> {
  return (await lab.acquire(replica, ticket)) as MailTurn;
}

/** What `replica` tells of itself that means trouble. */
function troubleOf({ coordinator }: TestReplica): string[] {
  const trouble: string[] = [];
  for (const event of ['lost', 'superseded', 'unavailable', 'ticketLeaked'] as const) {
    coordinator.on(event, () => trouble.push(event));
  }
  return trouble;
}

function notesOf(mail: Mailroom, turn: MailTurn): string[] {
  const notes: string[] = [];
  mail.onTold(turn, (note) => notes.push(note));
  return notes;
}

/** A message of `replica`, which adopts and allows one attempt, that failed it. */
async function park(lab: Lab, replica: TestReplica, key: string, body: string, error?: string): Promise<number> {
  const told: CoordinatorEvents['parked'][] = [];
  const off = replica.coordinator.on('parked', (event) => told.push(event));
  const turn = await hold(lab, replica, await accept(replica, key, body));
  await turn.release(error === undefined ? { retry: true } : { retry: true, error });
  await lab.until(lab.beatMs * 2, () => told.length === 1, `the event that ${body} was parked`);
  off();
  claimEqual(told[0]?.error, error?.slice(0, 500), 'the reason that the event tells');
  const { seq } = (await mailOf(replica).parked()).find((message) => message.body === body) ?? { seq: 0 };
  return seq;
}

const finishing = [
  fact('a message passed on is not counted as tried', async (lab) => {
    const crew = new Crew(lab);
    const [a, b] = [await crew.member(), await crew.member()];
    const turn = await hold(lab, a, await accept(a, 'k', '1'));
    await crew.accept(a, 'k', '2');
    await lab.sleep(lab.beatMs);

    await turn.release({ pass: true });
    await lab.until(lab.beatMs * 3 + lab.slackMs, () => crew.done.length === 2, 'both messages');

    claimEqual(
      crew.done.map(({ body, attempt }) => [body, attempt]),
      [
        ['1', 1],
        ['2', 1],
      ],
      'what was handled, at which attempt',
    );
    claimEqual(crew.done[0]?.by, b.coordinator.replicaId, 'who handled what was passed on');
  }),

  fact('messages that wait at a replica and are passed on run elsewhere, and are not counted as tried', async (lab) => {
    const crew = new Crew(lab);
    const [a, b] = [await lab.replica(), await crew.member()];
    const trouble = troubleOf(a);
    const held = await hold(lab, a, await accept(a, 'k', '1'));
    const tickets = [await accept(a, 'k', '2'), await accept(a, 'k', '3'), await accept(a, 'j', '4')];
    const wait = lab.follow(a.coordinator.acquireTurn(tickets[0]!));

    mailOf(a).passWaiting();
    await lab.until(lab.slackMs, () => wait.state !== 'waiting', 'the end of a wait for what was passed on');
    await claimRejects(a.coordinator.acquireTurn(tickets[1]!), ['stopped', 'ticket-used'], 'a turn passed on');
    await held.release();
    await lab.until(lab.beatMs * 3 + lab.slackMs, () => crew.done.length === 3, 'what was passed on');

    claimEqual(wait.error, 'stopped', 'the end of a wait for what was passed on');
    claimEqual(
      crew.done.map(({ body, attempt, by }) => `${body} ${attempt} ${by}`).sort(),
      ['2', '3', '4'].map((body) => `${body} 1 ${b.coordinator.replicaId}`),
      'what was handled elsewhere',
    );
    claimEqual(trouble, [], 'what was told of it');
  }),

  fact('messages finished together with a turn are done in the same step, whoever took them in', async (lab) => {
    const [a, b] = (await lab.replicas(2)) as [TestReplica, TestReplica];
    const trouble = [troubleOf(a), troubleOf(b)];
    const turn = await hold(lab, a, await accept(a, 'k', '1'));
    const [second, third] = [await accept(b, 'k', '2'), await accept(a, 'k', '3')];
    const fourth = await accept(b, 'k', '4');
    const waits = [
      lab.follow(b.coordinator.acquireTurn(second)),
      lab.follow(a.coordinator.acquireTurn(third)),
      lab.follow(b.coordinator.acquireTurn(fourth)),
    ];
    const behind = await mailOf(a).waiting(turn);
    // No heartbeat may have to bring what the step itself tells.
    await Promise.all([lab.nextBeat(a), lab.nextBeat(b)]);
    await lab.sleep(lab.slackMs / 2);
    const also = behind.filter(({ body }) => body !== '4').map(({ seq }) => seq);

    const { requests } = await lab.counted(a, () => turn.release({ also }));
    await lab.until(lab.slackMs, () => waits.every(({ state }) => state !== 'waiting'), 'the end of every wait');

    claimEqual(requests.apply, 1, 'batches for all of them');
    claimEqual(
      waits.map(({ state, error }) => error ?? state),
      ['superseded', 'superseded', 'resolved'],
      'what became of the waits',
    );
    for (const id of ['1', '2', '3']) {
      claimEqual(await b.coordinator.accept('k', { id, body: '' }), null, `message ${id} accepted again`);
    }
    await waits[2]?.value?.release();
    await lab.watch(lab.beatMs * 2);
    claimEqual(await lab.places(), 0, 'places left behind');
    claimEqual(trouble, [[], []], 'what was told of it');
  }),

  fact('messages finished together with a turn are done once, also when answers are lost', async (lab) => {
    const [a, b] = (await lab.replicas(2)) as [TestReplica, TestReplica];
    const turn = await hold(lab, a, await accept(a, 'k', '1'));
    await accept(b, 'k', '2');
    const [third] = [await accept(a, 'k', '3')];
    const wait = lab.follow(a.coordinator.acquireTurn(third));
    const also = (await mailOf(a).waiting(turn)).map(({ seq }) => seq);
    const later = await accept(b, 'k', '4');
    a.loseAnswers({ next: 1, of: 'apply' });
    a.repeatRequests({ next: 3 }, lab.beatMs / 4);

    await turn.release({ also });
    await lab.until(lab.beatMs * 2, () => wait.state !== 'waiting', 'the end of the wait');
    const next = await lab.within(lab.beatMs * 2, b.coordinator.acquireTurn(later), 'the turn behind them');
    await next.release();

    claimEqual(wait.error, 'superseded', 'the wait for one that was finished');
    claimEqual(await lab.places(), 0, 'places left behind');
  }),

  fact('only the holder can finish messages that wait behind it', async (lab) => {
    const crew = new Crew(lab, lab.beatMs);
    const [a, b] = [await lab.replica(), await crew.member()];
    const turn = await hold(lab, a, await accept(a, 'k', '1'));
    const elsewhere = await hold(lab, a, await accept(a, 'j', '2'));
    const { seq } = await accept(a, 'k', '3');

    await elsewhere.release({ also: [seq] });
    claimEqual((await mailOf(a).waiting(turn)).length, 1, 'messages behind the turn after the holder of another key');
    a.freeze();
    await lab.until(lab.deathBoundMs + lab.leaseMs, () => crew.begun.length === 1, 'the adopted message');
    a.thaw();
    await turn.release({ also: [seq] });
    await lab.until(lab.leaseMs * 2, () => crew.done.length === 2, 'the message behind it');

    claimEqual(crew.bodies, ['1', '3'], `what ${b.coordinator.replicaId} handled`);
  }),

  fact('a ticket that is finished without a turn is done, and blocks nobody', async (lab) => {
    const [a, b] = (await lab.replicas(2)) as [TestReplica, TestReplica];
    const turn = await hold(lab, a, await accept(a, 'k', '1'));
    const [second, third] = [await accept(b, 'k', '2'), await accept(a, 'k', '3')];
    claimEqual([mailOf(b).isGranted(second), mailOf(a).isGranted(third)], [false, false], 'granted tickets');

    await mailOf(b).finish(second);
    await turn.release();
    const next = await lab.atOnce(lab.acquire(a, third), 'the turn behind it');

    claimEqual(await b.coordinator.accept('k', { id: '2', body: '' }), null, 'the finished message accepted again');
    await claimRejects(mailOf(b).finish(second), ['ticket-used'], 'finishing it again');
    await claimRejects(b.coordinator.acquireTurn(second), ['ticket-used'], 'its turn');
    const free = await accept(b, 'j', '4');
    claimEqual(mailOf(b).isGranted(free), true, 'a ticket of an idle key is granted');
    await mailOf(b).finish(free);
    await next.release();
    claimEqual(await lab.places(), 0, 'places left behind');
  }),
];

const looking = [
  fact('a look at what waits changes nothing', async (lab) => {
    const [a, b] = (await lab.replicas(2)) as [TestReplica, TestReplica];
    const turn = await hold(lab, a, await accept(a, 'k', '1'));
    await accept(b, 'k', '2');
    const plain = lab.follow(lab.take(b, 'k'));
    const last = await a.coordinator.accept('k', { body: '3' });
    await lab.sleep(lab.slackMs);
    const before = (await lab.mesh.inspect()).flatMap((view) => view.queues);

    const all = await mailOf(a).waiting(turn);
    const { requests } = await lab.counted(a, () => mailOf(a).waiting(turn, 1));

    claimEqual(
      all.map(({ id, body, attempt }) => [id, body, attempt]),
      [
        ['2', '2', 1],
        [undefined, '3', 1],
      ],
      'what waits',
    );
    claimEqual(await mailOf(a).waiting(turn, 1), all.slice(0, 1), 'the first that waits');
    claimEqual([requests.waiting, requests.apply], [1, 0], 'requests for a look');
    claimEqual(
      (await lab.mesh.inspect()).flatMap((view) => view.queues),
      before,
      'the queues after the looks',
    );
    await turn.release();
    claimEqual(await mailOf(a).waiting(turn), [], 'what waits behind a turn that is over');
    claim(plain.state === 'waiting' && last !== null, 'a look let somebody go ahead');
  }),
];

const telling = [
  fact('a note reaches the holder at once, and a later turn never', async (lab) => {
    const [a, b] = (await lab.replicas(2)) as [TestReplica, TestReplica];
    const turn = await hold(lab, a, await accept(a, 'k', '1'));
    const notes = notesOf(mailOf(a), turn);
    const next = lab.follow(hold(lab, a, await accept(a, 'k', '2')));
    await lab.nextBeat(a);
    await lab.sleep(lab.slackMs / 2);

    claimEqual(await mailOf(b).tell('k', 'from b'), true, 'whether somebody was told');
    claimEqual(await mailOf(a).tell('k', 'from a'), true, 'whether it told itself');
    await lab.until(lab.slackMs, () => notes.length === 2, 'both notes');
    await turn.release();
    await lab.until(lab.slackMs, () => next.state === 'resolved', 'the next turn');
    const others = notesOf(mailOf(a), next.value!);
    await lab.watch(lab.beatMs * 2);

    claimEqual([notes, others], [['from b', 'from a'], []], 'notes of the two turns');
  }),

  fact('a note reaches the holder once, also when the push is lost', async (lab) => {
    const [a, b] = (await lab.replicas(2)) as [TestReplica, TestReplica];
    const turn = await hold(lab, a, await accept(a, 'k', '1'));
    const notes = notesOf(mailOf(a), turn);
    a.cut('pushes');

    await mailOf(b).tell('k', '1');
    await lab.until(lab.beatMs + lab.slackMs, () => notes.length === 1, 'a note whose push was lost');
    a.heal();
    a.loseAnswers({ next: 2, of: 'beat' });
    a.repeatRequests({ next: 6 }, lab.beatMs / 4);
    b.loseAnswers({ next: 1, of: 'apply' });
    await mailOf(b).tell('k', '2');
    await mailOf(b).tell('k', '3');
    await lab.until(lab.beatMs * 3 + lab.slackMs, () => notes.length >= 3, 'notes whose answers were lost');
    await lab.watch(lab.leaseMs);

    claimEqual(notes, ['1', '2', '3'], 'notes, in the order in which they were left');
  }),

  fact('a note that came before anybody listened is kept for the first that does', async (lab) => {
    const [a, b] = (await lab.replicas(2)) as [TestReplica, TestReplica];
    const ticket = await accept(a, 'k', '1');
    await mailOf(b).tell('k', 'before it was acquired');
    await lab.sleep(lab.beatMs * 2);
    const turn = await hold(lab, a, ticket);
    await mailOf(b).tell('k', 'before it was listened to');
    await lab.sleep(lab.beatMs * 2);

    const notes = notesOf(mailOf(a), turn);
    const late = notesOf(mailOf(a), turn);
    await lab.sleep(lab.slackMs);

    claimEqual(notes, ['before it was acquired', 'before it was listened to'], 'notes of the first listener');
    claimEqual(late, notes, 'notes of one that listened in the same moment');
  }),

  fact('a note that overtakes the answer which names its ticket is kept', async (lab) => {
    const [a, b] = (await lab.replicas(2)) as [TestReplica, TestReplica];
    await lab.nextBeat(a);
    a.loseAnswers({ next: 1, of: 'apply' });
    const accepted = a.coordinator.accept('k', { body: '' });
    await lab.sleep(lab.slackMs / 2);

    claimEqual(await mailOf(b).tell('k', 'early'), true, 'whether somebody was told');
    const ticket = await lab.within(lab.beatMs * 2, accepted, 'an acceptance whose answer was lost');
    const notes = notesOf(mailOf(a), await hold(lab, a, ticket!));
    await lab.watch(lab.beatMs * 2);

    claimEqual(notes, ['early'], 'notes');
  }),

  fact('a key that nobody holds is told nothing', async (lab) => {
    const [a, b] = (await lab.replicas(2)) as [TestReplica, TestReplica];
    const turn = await hold(lab, a, await accept(a, 'k', '1'));
    await turn.release();
    await (await lab.lead(a, 'name')).resign();

    claimEqual([await mailOf(b).tell('k', ''), await mailOf(b).tell('name', '')], [false, false], 'who was told');
  }),
];

const parking = [
  fact('a parked message that is replayed runs again, one that is dropped frees its id', async (lab) => {
    const crew = new Crew(lab);
    const a = await crew.member({ maxAttempts: 1 });
    const replayed = await park(lab, a, 'k', '1', `because ${'x'.repeat(600)}`);
    const dropped = await park(lab, a, 'k', '2');
    claimEqual(
      (await mailOf(a).parked()).map(({ key, id, body, attempts, error }) => [key, id, body, attempts, error?.length]),
      [
        ['k', '1', '1', 1, 500],
        ['k', '2', '2', 1, undefined],
      ],
      'what is parked',
    );

    claimEqual(await mailOf(a).replay('k', replayed), true, 'whether it was replayed');
    claimEqual(await mailOf(a).drop('k', dropped), true, 'whether it was dropped');
    await lab.until(lab.beatMs * 2 + lab.slackMs, () => crew.done.length === 1, 'the replayed message');

    claimEqual(crew.done[0]?.attempt, 1, 'its attempt');
    claimEqual(await mailOf(a).parked(), [], 'what is parked');
    claimEqual(await a.coordinator.accept('k', { id: '1', body: '1' }), null, 'the replayed message accepted again');
    claim(await crew.accept(a, 'k', 'again', '2'), 'the id of the dropped message is still taken');
    const again = [await mailOf(a).replay('k', replayed), await mailOf(a).drop('k', dropped)];
    claimEqual(again, [false, false], 'the same again');
  }),
];

const pacing = [
  fact('a shared pace is kept by all replicas together', async (lab) => {
    const replicas = await lab.replicas(3);
    const costMs = lab.beatMs;
    const dueMs: number[] = [];

    await Promise.all(
      Array.from({ length: 9 }, async (_, n) => {
        const waitMs = await mailOf(replicas[n % 3]!).pace('p', { costMs, burstMs: costMs * 2 });
        dueMs.push(lab.nowMs + waitMs);
      }),
    );

    dueMs.sort((a, b) => a - b);
    const spanMs = dueMs[8]! - dueMs[0]!;
    // Three at once, and six after them.
    claim(Math.abs(spanMs - costMs * 6) <= lab.slackMs, `nine slots of ${costMs} ms took ${spanMs} ms`);
    claim(dueMs[2]! - dueMs[0]! <= lab.slackMs, 'the burst was not given at once');
    const other = await mailOf(replicas[0]!).pace('another', { costMs });
    claimEqual(other, 0, 'the wait for another pace');
  }),

  fact('a pause of a shared pace holds up all replicas', async (lab) => {
    const [a, b] = (await lab.replicas(2)) as [TestReplica, TestReplica];
    const pace = { costMs: 10, burstMs: 1000 };

    await mailOf(a).pace('p', { ...pace, pauseMs: lab.leaseMs });
    const waitMs = await mailOf(b).pace('p', pace);

    claim(Math.abs(waitMs - lab.leaseMs) <= lab.slackMs, `the other replica waits ${waitMs} ms`);
  }),
];

/** One of each call. */
function callsOf(mail: Mailroom, turn: MailTurn): [string, () => Promise<unknown>][] {
  return [
    ['waiting', () => mail.waiting(turn)],
    ['tell', () => mail.tell('k', '')],
    ['parked', () => mail.parked()],
    ['replay', () => mail.replay('k', 5)],
    ['drop', () => mail.drop('k', 5)],
    ['pace', () => mail.pace('p', { costMs: 1 })],
  ];
}

const odd = [
  fact('calls to a mailroom reject as unavailable while the backend is away, and none hangs', async (lab) => {
    const [a] = (await lab.replicas(1)) as [TestReplica];
    const calls = callsOf(mailOf(a), await hold(lab, a, await accept(a, 'k', '1')));
    a.cut();

    const before = calls.map(([, call]) => lab.follow(call()));
    await lab.until(lab.leaseMs + lab.slackMs, () => before.every(({ state }) => state !== 'waiting'), 'every answer');
    const during = calls.map(([, call]) => lab.follow(call()));
    await lab.until(
      lab.slackMs,
      () => during.every(({ state }) => state !== 'waiting'),
      'every answer, when it is down',
    );
    const found = [before, during].map((all) => all.map(({ error }, n) => `${calls[n]![0]} ${error}`));

    const expected = calls.map(([name]) => `${name} unavailable`);
    claimEqual(found, [expected, expected], 'what the calls came to');
  }),

  fact('calls to a mailroom end with its stop, and reject after it', async (lab) => {
    const [a] = (await lab.replicas(1)) as [TestReplica];
    const calls = callsOf(mailOf(a), await hold(lab, a, await accept(a, 'k', '1')));
    a.cut();
    const before = calls.map(([, call]) => lab.follow(call()));
    const asked = before.filter((_, n) => ['waiting', 'parked', 'pace'].includes(calls[n]![0]));

    const stopped = a.coordinator.stop();
    await lab.until(lab.slackMs, () => asked.every(({ state }) => state !== 'waiting'), 'the end of what was asked');
    await stopped;
    await lab.until(lab.slackMs, () => before.every(({ state }) => state === 'rejected'), 'the end of every call');

    claimEqual(
      before.map(({ error }) => error),
      calls.map(() => 'stopped'),
      'what the calls came to',
    );
    for (const [name, call] of calls) await claimRejects(call(), ['stopped'], name);
  }),

  fact(
    'a mailroom over several shards asks the shard of the key',
    async (lab) => {
      const crew = new Crew(lab);
      const a = await crew.member({ maxAttempts: 1 });
      const b = await lab.replica();
      for (let n = 0; n < 6; n++) {
        const seq = await park(lab, a, `k${n}`, `parked ${n}`);
        const turn = await hold(lab, a, await accept(a, `k${n}`, `held ${n}`));
        const notes = notesOf(mailOf(a), turn);
        await accept(b, `k${n}`, `behind ${n}`);

        claimEqual((await mailOf(a).waiting(turn)).length, 1, `messages behind the turn of k${n}`);
        claimEqual(await mailOf(b).tell(`k${n}`, 'note'), true, `whether the holder of k${n} was told`);
        claimEqual(await mailOf(b).drop(`k${n}`, seq), true, `whether the parked message of k${n} was dropped`);
        await lab.until(lab.slackMs, () => notes.length === 1, `the note of k${n}`);
        await mailOf(a).pace(`p${n}`, { costMs: lab.leaseMs });
        claim((await mailOf(b).pace(`p${n}`, { costMs: lab.leaseMs })) > 0, `pace p${n} is not shared`);
      }
    },
    { shards: 3 },
  ),

  fact('a mailroom refuses what it cannot use, by name', async (lab) => {
    const [a] = (await lab.replicas(1)) as [TestReplica];
    const mail = mailOf(a);
    const turn = await hold(lab, a, await accept(a, 'k', '1'));
    const bad = 'bad-input';

    await claimRejects(mail.tell('k', 'x'.repeat(65_537)), [bad], 'a note that is too long');
    await claimRejects(mail.tell('k', 5 as never), [bad], 'a note that is no text');
    await claimRejects(mail.waiting({} as never), [bad], 'what waits behind no turn');
    await claimRejects(mail.waiting(turn, 257), ['config'], 'a limit beyond the greatest');
    await claimRejects(mail.replay('k', '5' as never), [bad], 'a replay of no number');
    await claimRejects(mail.pace('p', { costMs: Number.NaN }), ['config'], 'a pace of no number');
    await claimRejects(mail.pace('p', undefined as never), ['config'], 'no pace');
    await claimRejects(mail.finish({} as never), [bad], 'the end of no ticket');
    await turn.release({ also: ['x', Number.NaN, 4] as never, error: 5 as never });
    claimEqual(await lab.places(), 0, 'places left by a release with odd options');
  }),
];

export const mailroom = [...finishing, ...looking, ...telling, ...parking, ...pacing, ...odd];
