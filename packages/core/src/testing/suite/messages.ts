import type { ParkedView } from '../../coordination/store.js';
import type { AdoptedMessage, CoordinatorEvents } from '../../coordination/types.js';
import type { TestReplica } from '../conformance.js';
import { adoptedMs, Crew } from './Crew.js';
import { claim, claimEqual, claimRejects } from './claims.js';
import { promised } from './define.js';
import type { Lab } from './Lab.js';

async function parked(lab: Lab): Promise<ParkedView[]> {
  return (await lab.mesh.inspect()).flatMap((view) => view.parked);
}

async function endInTheMiddle(lab: Lab, end: 'crash' | 'stop'): Promise<void> {
  const crew = new Crew(lab);
  const [a, b, c] = [await lab.replica(), await crew.member(), await crew.member()];
  const first = await a.coordinator.accept('k', { body: '1' });
  if (end === 'crash') await lab.acquire(a, first!);
  await crew.accept(b, 'k', '2');
  for (const body of ['3', '4']) await a.coordinator.accept('k', { body });
  await crew.accept(c, 'k', '5');
  await a.coordinator.accept('k', { body: '6' });
  await crew.accept(b, 'k', '7');
  const behind = lab.follow(lab.take(c, 'k'));

  if (end === 'crash') a.crash();
  else await a.coordinator.stop();
  await lab.until(adoptedMs(lab), () => behind.state === 'resolved', 'the turn behind all messages');

  claimEqual(crew.bodies, ['1', '2', '3', '4', '5', '6', '7'], 'the order in which they were handled');
}

export const places = [
  promised(21, undefined, (lab) => endInTheMiddle(lab, 'crash')),
  promised(21, 'also those of a replica that stopped', (lab) => endInTheMiddle(lab, 'stop')),

  promised(21, 'a message that failed runs again before later ones', async (lab) => {
    const crew = new Crew(lab);
    let failures = 2;
    const work = ({ body }: { body: string }): void => {
      if (body === '1' && failures-- > 0) throw new Error('a handler that fails');
    };
    const [a, b] = [await crew.member({}, work), await crew.member({}, work)];
    const first = await a.coordinator.accept('k', { body: '1' });
    const turn = await lab.acquire(a, first!);
    await crew.accept(b, 'k', '2');
    await crew.accept(a, 'k', '3');

    await turn.release({ retry: true });
    await lab.until(lab.beatMs * 3 + lab.slackMs, () => crew.done.length === 3, 'all messages');

    claimEqual(crew.bodies, ['1', '2', '3'], 'the order in which they were handled');
  }),
];

export const dedupe = [
  promised(22, undefined, async (lab) => {
    const [a, b] = (await lab.replicas(2)) as [TestReplica, TestReplica];
    const again = async (when: string): Promise<void> => {
      for (const { coordinator } of [a, b]) {
        const ticket = await coordinator.accept('k', { id: 'twice', body: 'again' });
        claimEqual(ticket, null, `the second acceptance, while the first is ${when}`);
      }
    };
    const held = await lab.take(a, 'k');
    const ticket = await a.coordinator.accept('k', { id: 'twice', body: 'first' });
    claim(ticket !== null, 'the first was taken for a duplicate');

    await again('waiting');
    await held.release();
    const turn = await lab.acquire(a, ticket);
    await again('running');
    await turn.release();
    await again('done');
    await lab.sleep(lab.leaseMs * 2);
    await again('done for long');

    for (const [key, id] of [
      ['other', 'twice'],
      ['k', 'twice '],
      ['k', ''],
      ['kt', 'wice'],
      ['', 'ktwice'],
      ['k:t', 'wice'],
    ] as const) {
      const other = await a.coordinator.accept(key, { id, body: '' });
      claim(other !== null, `id ${JSON.stringify(id)} of key ${JSON.stringify(key)} was taken for a duplicate`);
    }
    for (let n = 0; n < 2; n++) {
      claim(
        (await a.coordinator.accept('k', { body: '' })) !== null,
        'a message without an id was taken for a duplicate',
      );
    }
  }),

  // C-48
  promised(22, 'accepted by many at one moment', async (lab) => {
    const replicas = await lab.replicas(5);
    for (const replica of replicas) replica.delay({ minMs: 0, maxMs: lab.beatMs / 10 });

    const calls = [...replicas, ...replicas].map(({ coordinator }) => coordinator.accept('k', { id: '1', body: '' }));
    const tickets = await lab.within(lab.leaseMs, Promise.all(calls), 'ten acceptances');

    claimEqual(tickets.filter((ticket) => ticket !== null).length, 1, 'times it was taken in');
  }),

  promised(22, 'also when answers are lost and requests come twice', async (lab) => {
    const crew = new Crew(lab, 1);
    const [a, b] = [await crew.member(), await crew.member()];
    for (const replica of [a, b]) {
      replica.loseAnswers(0.25);
      replica.repeatRequests(0.4, lab.beatMs / 4);
      replica.dropPushes(0.3);
    }

    for (let n = 0; n < 15; n++) {
      const body = `${n}`;
      const isTaken = await lab.within(lab.leaseMs * 2, crew.accept(n % 2 === 0 ? a : b, 'k', body, body), 'a message');
      claim(isTaken, `message ${n} was taken for a duplicate of itself`);
    }
    await lab.until(lab.leaseMs * 20, () => new Set(crew.bodies).size === 15, 'all messages');
    await lab.watch(lab.leaseMs);

    claimEqual(
      crew.bodies,
      Array.from({ length: 15 }, (_, n) => `${n}`),
      'what was handled',
    );
  }),

  promised(22, 'also when a heartbeat from before it was adopted reaches the store again', async (lab) => {
    const crew = new Crew(lab, lab.beatMs * 4);
    const [a, b] = [await lab.replica(), await crew.member()];
    await a.coordinator.accept('k', { id: '1', body: 'once' });
    await lab.sleep(lab.beatMs / 2);
    b.repeatRequests({ next: 1, of: 'beat' }, lab.beatMs * 2.5);
    await lab.nextBeat(b);

    await a.coordinator.stop();
    await lab.until(lab.beatMs, () => crew.begun.length === 1, 'the adopted message');
    await lab.watch(lab.leaseMs * 1.5);

    claimEqual(
      [crew.begun.length, crew.done.map(({ attempt }) => attempt)],
      [1, [1]],
      'attempts that began, and those that ended',
    );
  }),

  promised(22, 'within its window and no longer', async (lab) => {
    const dedupeMs = lab.leaseMs;
    const [a, b] = (await lab.replicas(2, { dedupeMs })) as [TestReplica, TestReplica];
    const accept = (replica: TestReplica) => replica.coordinator.accept('k', { id: '1', body: '' });
    const ticket = await accept(a);
    const turn = await lab.acquire(a, ticket!);
    // Between two heartbeats, so that the window's end is not a moment at which old ids are cleared away.
    await lab.sleep(dedupeMs * 2 + lab.beatMs / 2);
    claimEqual(await accept(b), null, 'the second, while the first runs for long');

    await turn.release();
    await lab.sleep(dedupeMs - lab.slackMs);
    claimEqual(await accept(b), null, 'the second within the window');
    await lab.sleep(lab.slackMs * 2);
    const late = await accept(b);

    claim(late !== null, 'the second was taken for a duplicate after the window');
    await (await lab.acquire(b, late)).release();
    await lab.sleep(dedupeMs + lab.beatMs * 2);
    const remembered = (await lab.mesh.inspect()).map((view) => view.remembered);
    claimEqual(remembered, [0], 'ids that are remembered after their window');
  }),

  // C-03
  promised(22, 'when the first was given up', async (lab) => {
    const [a, b] = (await lab.replicas(2)) as [TestReplica, TestReplica];
    const held = await lab.take(b, 'k');
    const accept = (replica: TestReplica) => replica.coordinator.accept('k', { id: '1', body: '' });
    const first = await accept(a);
    await claimRejects(a.coordinator.acquireTurn(first!, { timeoutMs: lab.slackMs }), ['timeout'], 'the first');
    await lab.sleep(lab.slackMs);

    const second = await accept(b);
    claim(second !== null, 'the second was taken for a duplicate of what timed out');
    const aborted = b.coordinator.acquireTurn(second, { signal: AbortSignal.abort(new Error('no')) });
    await claimRejects(aborted, ['no'], 'the second');
    await lab.sleep(lab.slackMs);
    const third = await accept(a);
    claim(third !== null, 'the third was taken for a duplicate of what was aborted');
    claimEqual(await accept(b), null, 'the fourth, while the third waits');

    await held.release();
    await (await lab.atOnce(lab.acquire(a, third), 'the turn of the third')).release();
    claimEqual(await lab.places(), 0, 'places left behind');
  }),

  promised(22, 'also while it is adopted, and after', async (lab) => {
    const crew = new Crew(lab, lab.beatMs);
    const [a, b] = [await lab.replica(), await crew.member()];
    const again = () => b.coordinator.accept('k', { id: '1', body: 'again' });
    const ticket = await a.coordinator.accept('k', { id: '1', body: 'first' });
    await lab.acquire(a, ticket!);
    await lab.sleep(lab.leaseMs);
    a.crash();

    claimEqual(await again(), null, 'the second, when the owner of the first has just died');
    await lab.until(adoptedMs(lab), () => crew.begun.length === 1, 'the adopted message');
    claimEqual(await again(), null, 'the second, while the first is adopted');
    await lab.until(lab.beatMs * 2, () => crew.done.length === 1, 'the end of the adopted message');
    claimEqual(await again(), null, 'the second, when the first was done');
  }),
];

export const refusals = [
  promised(
    20,
    'also when it was refused where it came in first, and called a duplicate where it came next',
    async (lab) => {
      const crew = new Crew(lab);
      const [a, b] = [await crew.member(), await crew.member()];
      await lab.nextBeat(a);
      a.cut('answers');
      await claimRejects(crew.accept(a, 'k', 'text', '1'), ['unavailable'], 'the first delivery');

      claimEqual(await crew.accept(b, 'k', 'text', '1'), false, 'whether the second is new');
      a.heal();
      await lab.until(lab.leaseMs * 3, () => crew.done.length > 0, 'the message');
      await lab.watch(lab.leaseMs);

      claimEqual(crew.bodies, ['text'], 'what was handled');
    },
  ),
];

export const parking = [
  promised(23, undefined, async (lab) => {
    const crew = new Crew(lab);
    const told: CoordinatorEvents['parked'][] = [];
    const fail = ({ body }: { body: string }): void => {
      if (body === 'poison') throw new Error('a handler that always fails');
    };
    const replicas = [await crew.member({ maxAttempts: 3 }, fail), await crew.member({ maxAttempts: 3 }, fail)];
    const [a, b] = replicas as [TestReplica, TestReplica];
    for (const { coordinator } of replicas) coordinator.on('parked', (event) => told.push(event));
    const first = await a.coordinator.accept('k', { id: 'bad', body: 'poison' });
    await crew.accept(b, 'k', 'next', 'next');

    await (await lab.acquire(a, first!)).release({ retry: true });
    await lab.until(lab.beatMs * 4 + lab.slackMs, () => crew.done.length === 1, 'the message behind it');
    await lab.watch(lab.leaseMs);

    claimEqual(
      crew.begun.filter(({ body }) => body === 'poison').map(({ attempt }) => attempt),
      [2, 3],
      'attempts that came again',
    );
    claimEqual(crew.bodies, ['next'], 'what was handled');
    claimEqual(told, [{ key: 'k', id: 'bad', attempts: 3 }], 'what was told');
    const kept = (await parked(lab)).map(({ id, body, attempts }) => ({ id, body, attempts }));
    claimEqual(kept, [{ id: 'bad', body: 'poison', attempts: 3 }], 'what is kept');
    claimEqual(await b.coordinator.accept('k', { id: 'bad', body: 'poison' }), null, 'the same message once more');
    claimEqual(await lab.places(), 0, 'places left behind');
  }),

  promised(23, 'also one that ends the life of each replica that tries it', async (lab) => {
    const crew = new Crew(lab);
    const victims = [await lab.replica({ maxAttempts: 2 })];
    const first = await victims[0]!.coordinator.accept('k', { id: 'bad', body: 'poison' });
    await victims[0]!.coordinator.accept('k', { body: 'next' });
    await lab.acquire(victims[0]!, first!);
    let tried = 0;
    const second = await lab.replica({
      onAdopted: ({ ticket, body }) => {
        if (body === 'poison') lab.follow(lab.acquire(second, ticket).then(() => tried++));
      },
    });

    victims[0]!.crash();
    await lab.until(adoptedMs(lab), () => tried === 1, 'the second attempt');
    second.crash();
    await crew.member();
    await lab.until(adoptedMs(lab) + lab.leaseMs, () => crew.done.length === 1, 'the message behind it');

    claimEqual(crew.bodies, ['next'], 'what was handled');
    claimEqual(
      (await parked(lab)).map(({ body, attempts }) => [body, attempts]),
      [['poison', 2]],
      'what is kept',
    );
  }),

  promised(
    23,
    'also one that ends the life of each replica that tries it, and it takes no other with it',
    async (lab) => {
      const deaths = new Deaths(lab, (replica) => replica.crash());
      const first = await deaths.replica();
      await deaths.replica();
      await deaths.accept(first, 200);

      // Twice all that a replica had goes on together; then one message after the other, on each replica.
      await deaths.untilParked(3 * adoptedMs(lab) + 200 * lab.slackMs);

      claimEqual(deaths.attempts, [1, 2, 3], 'attempts of the message that ends each life');
    },
  ),

  promised(23, 'also one that blocks the only replica beyond its lease, and it takes no other with it', async (lab) => {
    const deaths = new Deaths(lab, (replica) => {
      replica.freeze();
      lab.follow(lab.sleep(lab.leaseMs).then(() => replica.thaw()));
    });
    await deaths.accept(await deaths.replica(), 20);

    await deaths.untilParked(3 * (lab.leaseMs * 2 + lab.slackMs) + 20 * lab.slackMs);

    claimEqual(deaths.attempts, [1, 2, 3], 'attempts of the message that blocks');
  }),
];

/** Replicas with many harmless messages in their hand, and with one that `strike`s whichever tries it. */
class Deaths {
  readonly attempts: number[] = [];
  readonly #lab: Lab;
  readonly #strike: (replica: TestReplica) => void;
  readonly #done = new Set<string>();
  readonly #parked: CoordinatorEvents['parked'][] = [];
  #harmless = 0;

  constructor(lab: Lab, strike: (replica: TestReplica) => void) {
    this.#lab = lab;
    this.#strike = strike;
  }

  async replica(): Promise<TestReplica> {
    const early: AdoptedMessage[] = [];
    let replica: TestReplica | undefined;
    const onAdopted = (message: AdoptedMessage): void => {
      if (replica === undefined) early.push(message);
      else this.#lab.follow(this.#handle(replica, message));
    };
    replica = await this.#lab.replica({ maxAttempts: 3, onAdopted });
    replica.coordinator.on('parked', (event) => this.#parked.push(event));
    for (const message of early) this.#lab.follow(this.#handle(replica, message));
    return replica;
  }

  /** So many harmless messages, each of its own chat, and the other one. */
  async accept(replica: TestReplica, harmless: number): Promise<void> {
    this.#harmless = harmless;
    const bodies = [...Array.from({ length: harmless }, (_, n) => `${n}`), 'poison'];
    const take = async (body: string): Promise<AdoptedMessage> => {
      const ticket = await replica.coordinator.accept(`chat ${body}`, { body });
      return { ticket: ticket!, body, attempt: 1 };
    };
    for (const message of await Promise.all(bodies.map(take))) this.#lab.follow(this.#handle(replica, message));
  }

  async untilParked(ms: number): Promise<void> {
    const isOver = (): boolean => this.#done.size === this.#harmless && this.#parked.length > 0;
    await this.#lab.until(ms, isOver, 'the end of all messages');
    const kept = (await parked(this.#lab)).map(({ body, attempts }) => [body, attempts]);
    claimEqual(kept, [['poison', 3]], 'what is kept');
  }

  async #handle(replica: TestReplica, { attempt, body, ticket }: AdoptedMessage): Promise<void> {
    const turn = await this.#lab.acquire(replica, ticket);
    if (body === 'poison') {
      this.attempts.push(attempt);
      this.#strike(replica);
      // As whoever looks after the processes would.
      if (!replica.isFrozen) await this.replica();
      return;
    }
    await this.#lab.sleep(this.#lab.slackMs / 8);
    turn.assertHeld();
    await turn.release();
    this.#done.add(body);
  }
}
