import type { ChatTurn } from '../../coordination/types.js';
import type { TestReplica } from '../conformance.js';
import { adoptedMs, Crew } from './Crew.js';
import { claim, claimEqual } from './claims.js';
import { promised } from './define.js';
import { believes } from './Lab.js';

export const handling = [
  promised(20, undefined, async (lab) => {
    const crew = new Crew(lab);
    const [a, b] = [await lab.replica(), await crew.member()];
    await crew.accept(b, 'own', 'own');
    const running = await a.coordinator.accept('k', { id: '1', body: 'died in the middle' });
    await lab.acquire(a, running!);
    await a.coordinator.accept('k', { id: '2', body: 'died waiting' });
    await a.coordinator.accept('other', { body: 'died before it began' });
    await lab.sleep(lab.leaseMs);

    a.crash();
    await lab.until(adoptedMs(lab), () => crew.done.length === 4, 'the messages of the dead');
    await lab.watch(lab.leaseMs * 2);

    claimEqual(
      [...crew.bodies].sort(),
      ['died before it began', 'died in the middle', 'died waiting', 'own'],
      'handled',
    );
    const attempts = Object.fromEntries(crew.done.map(({ body, attempt }) => [body, attempt]));
    claimEqual([attempts['died in the middle'], attempts['died waiting']], [2, 1], 'attempts');
    claimEqual(await lab.places(), 0, 'places left behind');
  }),

  promised(20, 'its replica stopped', async (lab) => {
    const crew = new Crew(lab);
    const [a, b] = [await lab.replica({ maxAttempts: 1 }), await crew.member()];
    const running = await a.coordinator.accept('k', { id: '1', body: 'in the middle' });
    const turn = await lab.acquire(a, running!);
    await a.coordinator.accept('k', { id: '2', body: 'waiting' });
    await a.coordinator.accept('other', { body: 'not begun' });
    const done = await a.coordinator.accept('third', { id: '3', body: 'done' });
    const finished = await lab.acquire(a, done!);

    await lab.nextBeat(b);
    lab.follow(finished.release());
    await lab.atOnce(a.coordinator.stop(), 'stop()');
    await lab.until(lab.slackMs * 2, () => crew.done.length === 3, 'the messages of the stopped');
    await lab.watch(lab.leaseMs);

    claimEqual([...crew.bodies].sort(), ['in the middle', 'not begun', 'waiting'], 'what was handled');
    claimEqual(
      crew.done.map(({ attempt }) => attempt),
      [1, 1, 1],
      'attempts: to stop in good order is no failure',
    );
    claim(!believes(turn), 'the holder that stopped believes');
    claimEqual(await b.coordinator.accept('k', { id: '1', body: 'again' }), null, 'a message that was handled');
  }),

  promised(20, 'nobody is left, and one comes later', async (lab) => {
    const crew = new Crew(lab);
    const a = await lab.replica();
    for (const key of ['k', 'k', 'other']) await a.coordinator.accept(key, { body: key });
    a.crash();
    await lab.sleep(lab.leaseMs * 2);

    await crew.member();
    await lab.until(adoptedMs(lab), () => crew.done.length === 3, 'the messages of the dead');
  }),

  promised(20, 'messages of many chats at once', async (lab) => {
    const crew = new Crew(lab);
    const a = await lab.replica();
    await Promise.all(Array.from({ length: 300 }, (_, n) => a.coordinator.accept(`k${n}`, { body: `${n}` })));
    await crew.member();
    await crew.member();
    await lab.sleep(lab.leaseMs);

    a.crash();
    await lab.until(adoptedMs(lab), () => crew.done.length === 300, 'the messages of the dead');
    await lab.watch(lab.beatMs * 2);

    claimEqual(new Set(crew.bodies).size, 300, 'different messages handled');
    claimEqual(crew.begun.length, 300, 'attempts that began');
  }),

  promised(13, 'also a heartbeat that reaches the store again, after what it does not know of', async (lab) => {
    const a = await lab.replica();
    const adopted: ChatTurn[] = [];
    const b: TestReplica = await lab.replica({
      onAdopted: ({ ticket }) => void lab.acquire(b, ticket).then((turn) => adopted.push(turn)),
    });
    await a.coordinator.accept('k', { id: '1', body: 'text' });
    await lab.sleep(lab.beatMs);
    const beats = b.counts.requests.beat;
    b.repeatRequests({ next: 1, of: 'beat' }, lab.leaseMs);
    await lab.until(lab.beatMs * 2, () => b.counts.requests.beat > beats, 'a heartbeat');

    await a.coordinator.stop();
    await lab.until(lab.beatMs * 2, () => adopted.length > 0, 'the message of who stopped');
    await lab.watch(lab.leaseMs * 2);

    claim(believes(adopted[0]!), 'the turn at the adopted message was lost to an old heartbeat');
    claimEqual(adopted.length, 1, 'how often the message was taken over');
  }),

  promised(13, 'also an acceptance, when its replica was counted as dead before it heard the answer', async (lab) => {
    const crew = new Crew(lab);
    const [a] = [await lab.replica(), await crew.member()];
    await lab.nextBeat(a);
    a.loseAnswers({ next: 9, of: 'apply' });
    const accepted = lab.follow(a.coordinator.accept('k', { body: 'once' }));
    await lab.sleep(lab.slackMs);
    a.freeze();
    await lab.until(adoptedMs(lab), () => crew.done.length === 1, 'the adopted message');

    a.loseAnswers(0);
    a.thaw();
    await lab.watch(lab.leaseMs * 2);

    claimEqual([accepted.state, accepted.error], ['rejected', 'unavailable'], 'the call without an answer');
    claimEqual([crew.bodies, await lab.places()], [['once'], 0], 'what was handled, and places left behind');
  }),

  promised(20, 'only replicas that listen are given any', async (lab) => {
    const crew = new Crew(lab);
    const [a, deaf] = (await lab.replicas(2)) as [TestReplica, TestReplica];
    await a.coordinator.accept('k', { body: 'first' });
    await a.coordinator.stop();
    const behind = lab.follow(lab.take(deaf, 'k'));
    await lab.watch(lab.leaseMs);
    claimEqual(behind.state, 'waiting', 'the turn behind a message that nobody can handle');

    await crew.member();
    await lab.until(lab.beatMs * 2 + lab.slackMs, () => behind.state === 'resolved', 'the turn behind the message');

    claimEqual(crew.bodies, ['first'], 'what was handled');
  }),

  promised(20, 'its replica froze in the middle, and wakes', async (lab) => {
    const crew = new Crew(lab);
    const [a, b] = [await crew.member(), await crew.member()];
    const ticket = await a.coordinator.accept('k', { id: '1', body: 'once' });
    const turn = await lab.acquire(a, ticket!);
    a.freeze();
    await lab.until(adoptedMs(lab), () => crew.begun.length === 1, 'the adopted message');

    a.thaw();
    claim(!believes(turn), 'the holder believes in what it lost');
    await lab.within(lab.leaseMs, turn.release(), 'a release of what was lost');
    await lab.watch(lab.leaseMs * 2);

    claimEqual(
      crew.done.map(({ body, attempt }) => [body, attempt]),
      [['once', 2]],
      'what was handled',
    );
    claimEqual(await b.coordinator.accept('k', { id: '1', body: 'again' }), null, 'a message that was handled');
    claimEqual(await lab.places(), 0, 'places left behind');
  }),

  promised(20, 'an outage ended its turn, and it comes again', async (lab) => {
    const crew = new Crew(lab, lab.beatMs);
    const a = await crew.member();
    for (const body of ['first', 'second', 'third']) await crew.accept(a, 'k', body, body);
    await lab.until(lab.beatMs / 2, () => crew.begun.length === 1, 'the first message');

    a.cut();
    await lab.watch(lab.leaseMs * 2);
    a.heal();
    await lab.until(lab.leaseMs * 2, () => crew.done.length >= 3, 'the messages after the outage');
    await lab.watch(lab.leaseMs);

    claimEqual(crew.bodies.slice(-2), ['second', 'third'], 'what was handled last');
    claim(crew.bodies.includes('first'), 'the first message was lost');
    claimEqual(await lab.places(), 0, 'places left behind');
  }),

  promised(20, 'it failed, or its ticket was forgotten', async (lab) => {
    const crew = new Crew(lab);
    let failures = 2;
    const a = await crew.member({ ticketTtlMs: lab.beatMs * 2 }, () => {
      if (failures-- > 0) throw new Error('a handler that fails');
    });
    const ticket = await a.coordinator.accept('k', { body: 'fails' });
    await (await lab.acquire(a, ticket!)).release({ retry: true });
    await lab.until(lab.beatMs * 2, () => crew.done.length === 1, 'the message that failed');
    claimEqual(
      crew.begun.map(({ attempt }) => attempt),
      [2, 3, 4],
      'attempts that came again',
    );

    await a.coordinator.accept('k', { body: 'forgotten' });
    await lab.until(lab.beatMs * 4 + lab.slackMs, () => crew.done.length === 2, 'the message that was forgotten');
  }),

  promised(20, 'many messages, while replicas crash and stop', async (lab) => {
    const crew = new Crew(lab, lab.beatMs / 30);
    const replicas: TestReplica[] = [];
    for (let n = 0; n < 4; n++) replicas.push(await crew.member());
    const expected: string[] = [];
    for (let n = 0; n < 60; n++) {
      const body = `${n}`;
      expected.push(body);
      await crew.accept(replicas[n % 4]!, `k${n % 5}`, body, body);
    }

    replicas[0]?.crash();
    await replicas[1]?.coordinator.stop();
    const handled = (): number => new Set(crew.bodies).size;
    await lab.until(adoptedMs(lab) + lab.leaseMs, () => handled() === expected.length, 'all messages');
    await lab.watch(lab.leaseMs);

    for (let key = 0; key < 5; key++) {
      const order = [...new Set(crew.bodies)].map(Number).filter((n) => n % 5 === key);
      claimEqual(
        order,
        [...order].sort((x, y) => x - y),
        `the order of the messages of k${key}`,
      );
    }
    claimEqual(await lab.places(), 0, 'places left behind');
  }),
];
