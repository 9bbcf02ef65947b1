import type { Bot } from '../../bot/Bot.js';
import type { AnyContext } from '../../bot/Context.js';
import { flow } from '../../bot/flow.js';
import type { BotOptions } from '../../bot/options.js';
import type { ChatTurn } from '../../coordination/types.js';
import type { TestReplica } from '../conformance.js';
import { FakeProvider } from '../FakeProvider.js';
import { claim, claimEqual, claimRejects, nameOf } from '../suite/claims.js';
import type { BotLab, LabBot } from './BotLab.js';

const upTo = (count: number): number[] => Array.from({ length: count }, (_, n) => n + 1);

/** A handler that replies, after what the text says it does first. */
type Work = (ctx: AnyContext, self: LabBot) => unknown;

/** Replicas whose handlers work, and then reply with the text. */
async function crew(lab: BotLab, count: number, work: Work, options: Partial<BotOptions> = {}): Promise<LabBot[]> {
  const set = (bot: Bot, self: LabBot): void => {
    bot.use(async (ctx) => {
      await work(ctx, self);
      await ctx.reply(ctx.message.text);
    });
  };
  const bots: LabBot[] = [];
  for (let n = 0; n < count; n++) bots.push(await lab.bot(set, options));
  return bots;
}

/** What runs, chat by chat, and the most that ever ran at once. */
class Watch {
  readonly begun: string[] = [];
  mostAtOnce = 0;
  mostOfOneChat = 0;
  readonly #running = new Map<string, number>();

  async during(ctx: AnyContext, run: () => unknown): Promise<void> {
    const { chat, text } = ctx.message;
    this.begun.push(`${text} ${ctx.attempt}`);
    this.#count(chat, 1);
    try {
      await run();
    } finally {
      this.#count(chat, -1);
    }
  }

  #count(chat: string, by: number): void {
    const ofChat = (this.#running.get(chat) ?? 0) + by;
    this.#running.set(chat, ofChat);
    this.mostOfOneChat = Math.max(this.mostOfOneChat, ofChat);
    this.mostAtOnce = Math.max(
      this.mostAtOnce,
      [...this.#running.values()].reduce((sum, one) => sum + one, 0),
    );
  }
}

/** A platform that lets one connection live, and notes what comes beside it. */
class OneConnection {
  readonly log: string[] = [];
  conflicts = 0;
  #connected: FakeProvider | undefined;

  /** A provider of this platform, for one replica. */
  provider(name: string, lab: BotLab): FakeProvider {
    const provider = new FakeProvider({ exclusive: true, sent: lab.sent });
    const start = provider.start.bind(provider);
    provider.start = (intake) => {
      if (this.#connected !== undefined) this.conflicts += 1;
      this.#connected = provider;
      this.log.push(`${name} connects`);
      return start(intake);
    };
    provider.close = () => {
      if (this.#connected === provider) this.#connected = undefined;
      this.log.push(`${name} closes`);
    };
    return provider;
  }

  /** The connection of a process that died goes with it. */
  drop(provider: FakeProvider): void {
    if (this.#connected === provider) this.#connected = undefined;
  }

  get connected(): FakeProvider | undefined {
    return this.#connected;
  }
}

/** A replica whose provider may have one connection. */
async function exclusive(lab: BotLab, platform: OneConnection, name: string): Promise<LabBot & { own: FakeProvider }> {
  const own = platform.provider(name, lab);
  const bot = await lab.bot((each) => each.use((ctx) => ctx.reply(ctx.message.text)), { provider: own });
  return Object.assign(bot, { own });
}

const readiness = async ({ bot }: LabBot): Promise<unknown> =>
  (await (await bot.webhook(new Request('http://bot/readyz'))).json()) as unknown;

/** Adds the message to what the chat's state lists. */
const listing: Work = (ctx) => {
  ctx.state.list = [...((ctx.state.list as string[] | undefined) ?? []), ctx.message.text];
};

/** Facts that users of bots on several replicas once missed: docs/cases.md has them by their ids. */
export const cases: Record<string, (lab: BotLab) => Promise<void>> = {
  // C-01, C-64
  'a handler of five leases is overlapped by nothing, and its message is acknowledged long before it ends': async (
    lab,
  ) => {
    const watch = new Watch();
    const work: Work = (ctx, self) =>
      watch.during(ctx, () => (ctx.message.text === 'long' ? self.sleep(5 * lab.leaseMs) : undefined));
    const [a, b] = (await crew(lab, 2, work)) as [LabBot, LabBot];

    claimEqual(await a.provider.receive({ chat: 'k', id: '1', text: 'long' }), 'accepted', 'the first');
    claimEqual(lab.sent.length, 0, 'replies when it was acknowledged');
    await lab.sleep(2.5 * lab.leaseMs);
    await b.provider.receive({ chat: 'k', id: '2', text: 'next' });
    claimEqual(await b.provider.receive({ chat: 'k', id: '1', text: 'long' }), 'duplicate', 'its redelivery meanwhile');
    await lab.until(4 * lab.leaseMs, () => lab.sent.length === 2, 'both replies');

    claimEqual(watch.begun, ['long 1', 'next 1'], 'runs');
    claimEqual(watch.mostAtOnce, 1, 'runs at once');
  },

  // C-02
  'a place taken while its holder lets go is granted without another one after it': async (lab) => {
    const [a, b] = [await lab.mesh.replica(), await lab.mesh.replica()];
    const rounds = 30;
    const stepMs = lab.leaseMs / 600;

    for (let round = 0; round < rounds; round++) {
      a.delay({ minMs: 0, maxMs: stepMs });
      b.delay({ minMs: 0, maxMs: stepMs });
      const turn = await take(a, `k ${round % 3}`);
      const letGo = turn.release();
      const next = take(b, turn.key);
      let isGranted = false;
      void next.then(
        () => (isGranted = true),
        () => {},
      );
      await lab.until(lab.leaseMs / 3 + 2 * lab.mesh.slackMs, () => isGranted, `the turn of round ${round}`);
      await Promise.all([letGo, (await next).release()]);
    }
  },

  // C-04
  'chats of one sender run side by side, and under a common key each is answered in its own place': async (lab) => {
    const watch = new Watch();
    const work: Work = async (ctx, self) => {
      if (ctx.message.kind === 'wide') await ctx.hold('channel');
      await watch.during(ctx, () => self.sleep(lab.leaseMs / 6));
    };
    const [a, b] = (await crew(lab, 2, work)) as [LabBot, LabBot];

    await a.provider.receive({ chat: 'one', id: '1', from: 'ana', text: 'to one' });
    await b.provider.receive({ chat: 'two', id: '1', from: 'ana', text: 'to two' });
    await lab.until(lab.leaseMs, () => lab.sent.length === 2, 'both replies');
    claimEqual(watch.mostAtOnce, 2, 'chats at once');

    watch.mostAtOnce = 0;
    await a.provider.receive({ chat: 'one', id: '2', kind: 'wide', text: 'wide one' });
    await b.provider.receive({ chat: 'two', id: '2', kind: 'wide', text: 'wide two' });
    await lab.until(2 * lab.leaseMs, () => lab.sent.length === 4, 'all replies');

    claimEqual(watch.mostAtOnce, 1, 'chats at once under one key');
    claimEqual(
      [lab.textsTo('one'), lab.textsTo('two')],
      [
        ['to one', 'wide one'],
        ['to two', 'wide two'],
      ],
      'replies',
    );
  },

  // C-05, C-22
  'a message that fails is tried again before those behind it, and given up it takes none of them along': async (
    lab,
  ) => {
    const watch = new Watch();
    const work: Work = (ctx) =>
      watch.during(ctx, () => {
        const { text } = ctx.message;
        if (text === 'never' || (text === 'later' && ctx.attempt < 3)) throw new Error('no');
      });
    const [a, b] = (await crew(lab, 2, work)) as [LabBot, LabBot];
    const texts = ['later', 'b', 'never', 'd', 'e'];

    for (const [n, text] of texts.entries()) {
      await (n % 2 === 0 ? a : b).provider.receive({ chat: 'k', id: text, text });
    }
    await lab.until(2 * lab.leaseMs, () => lab.sent.length === 4, 'the replies');

    claimEqual(lab.textsTo('k'), ['later', 'b', 'd', 'e'], 'replies');
    claimEqual(
      watch.begun,
      ['later 1', 'later 2', 'later 3', 'b 1', 'never 1', 'never 2', 'never 3', 'never 4', 'never 5', 'd 1', 'e 1'],
      'runs',
    );
  },

  // C-06
  'of places that two replicas take at the same moments none is given twice, and they come in their order': async (
    lab,
  ) => {
    const [a, b] = [await lab.mesh.replica(), await lab.mesh.replica()];
    const order: number[] = [];
    let holders = 0;
    let most = 0;
    const go = async (replica: TestReplica): Promise<number> => {
      const ticket = await replica.coordinator.reserve('k');
      const turn = await replica.coordinator.acquireTurn(ticket);
      order.push(ticket.seq);
      holders += 1;
      most = Math.max(most, holders);
      await Promise.resolve();
      holders -= 1;
      await turn.release();
      return ticket.seq;
    };

    const seqs: number[] = [];
    for (let round = 0; round < 1_000; round++) seqs.push(...(await Promise.all([go(a), go(b)])));

    claimEqual(new Set(seqs).size, 2_000, 'different places');
    claimEqual(most, 1, 'holders at once');
    claimEqual(
      order,
      order.toSorted((x, y) => x - y),
      'the order of the turns',
    );
  },

  // C-07
  'a holder that vanishes is passed over within the lease without anybody asking, and leaves nothing behind': async (
    lab,
  ) => {
    const [a, b] = [await lab.mesh.replica(), await lab.mesh.replica()];
    await take(a, 'k');
    const next = take(b, 'k');
    await lab.sleep(lab.leaseMs / 6);
    const before = requestsOf(b);

    a.crash();
    const turn = await next;
    const asked = requestsOf(b) - before;
    await turn.release();

    const views = await lab.mesh.inspect();
    // A heartbeat of each shard and sixth of a lease is all there is.
    claim(asked <= 12 * views.length, `who waited sent ${asked} requests`);
    claimEqual(
      views.flatMap(({ queues }) => queues),
      [],
      'the queues that are left',
    );
  },

  // C-09
  'turns go from message to message at once, not by the steps of a poll': async (lab) => {
    const waits: number[] = [];
    const endedAt = new Map<string, number>();
    const now = (): number => lab.mesh.clock.monotonicMs();
    const work: Work = async (ctx, self) => {
      const { chat } = ctx.message;
      const before = endedAt.get(chat);
      if (before !== undefined) waits.push(now() - before);
      await self.sleep(10);
      endedAt.set(chat, now());
    };
    const bots = await crew(lab, 3, work);

    const all = upTo(100).flatMap((chat) => upTo(5).map((n) => ({ chat: `chat ${chat}`, id: `${n}`, text: `${n}` })));
    await Promise.all(all.map((message, n) => bots[n % 3]!.provider.receive(message)));
    await lab.until(4 * lab.leaseMs, () => lab.ends.length === 500, 'all ends');

    const p95 = waits.toSorted((x, y) => x - y)[Math.floor(waits.length * 0.95)]!;
    claimEqual(waits.length, 400, 'hand-overs');
    claim(p95 < 100 + lab.mesh.slackMs, `the 95th percentile of hand-overs is ${p95} ms`);
  },

  // C-11
  'of two hundred chats each is serial, and all together take little longer than one': async (lab) => {
    const watch = new Watch();
    const bots = await crew(lab, 3, (ctx, self) => watch.during(ctx, () => self.sleep(200)));
    const begunMs = lab.mesh.clock.monotonicMs();

    const all = upTo(3).flatMap((n) => upTo(200).map((chat) => ({ chat: `chat ${chat}`, id: `${n}`, text: `${n}` })));
    await Promise.all(all.map((message, n) => bots[n % 3]!.provider.receive(message)));
    await lab.until(10 * lab.leaseMs, () => lab.ends.length === 600, 'all ends');

    const tookMs = lab.mesh.clock.monotonicMs() - begunMs;
    claimEqual(watch.mostOfOneChat, 1, 'turns of one chat at once');
    // One after the other they would take two minutes.
    claim(tookMs < 20_000 + 4 * lab.mesh.slackMs, `they took ${tookMs} ms`);
    for (const chat of upTo(200)) claimEqual(lab.textsTo(`chat ${chat}`).length, 3, `replies to chat ${chat}`);
  },

  // C-12, C-16, C-65
  'a flow that two first messages start at two replicas is started once, and goes on wherever the next one lands':
    async (lab) => {
      const set = (bot: Bot): void => {
        const steps = flow('signup')
          .ask('Name?', 'name')
          .ask('Town?', 'town')
          .say((_ctx, { state }) => `${String(state.name)} of ${String(state.town)}`);
        bot.use(steps);
      };
      const [a, b, c] = [await lab.bot(set), await lab.bot(set), await lab.bot(set)];

      await a.provider.receive({ chat: 'k', id: '1', text: 'signup' });
      await lab.sleep(50);
      await b.provider.receive({ chat: 'k', id: '2', text: 'signup' });
      await c.provider.receive({ chat: 'k', id: '3', text: 'Ghent' });
      await lab.until(lab.leaseMs, () => lab.sent.length === 3, 'the replies');

      claimEqual(lab.textsTo('k'), ['Name?', 'Town?', 'signup of Ghent'], 'replies');
    },

  // C-14
  'of messages that come to one chat by two replicas at once no change of state is lost': async (lab) => {
    const bots = await crew(lab, 2, async (ctx, self) => {
      const before = Number(ctx.state.count ?? 0);
      await self.sleep(1);
      ctx.state.count = before + 1;
    });

    await Promise.all(upTo(40).map((n) => bots[n % 2]!.provider.receive({ chat: 'k', id: `${n}`, text: 'x' })));
    await lab.until(4 * lab.leaseMs, () => lab.ends.length === 40, 'all ends');

    const kept = (await lab.state.load('k'))?.value as { data?: unknown } | undefined;
    claimEqual(kept?.data, { count: 40 }, 'what is kept');
    claimEqual(lab.errors.map(nameOf), [], 'errors');
  },

  // C-17
  'a replica that dies while its reply is on its way keeps no chat, and nothing has to be cleared away': async (
    lab,
  ) => {
    const [a, b] = (await crew(lab, 2, () => {})) as [LabBot, LabBot];
    let isSending = false;
    a.provider.onSend = () => {
      isSending = true;
      return a.hang();
    };
    await a.provider.receive({ chat: 'k', id: '1', text: 'one' });
    await lab.until(lab.leaseMs, () => isSending, 'the reply on its way');

    a.crash();
    await b.provider.receive({ chat: 'k', id: '2', text: 'two' });
    await lab.until(lab.takenOverMs, () => lab.sent.length === 2, 'both replies');

    claimEqual(lab.textsTo('k'), ['one', 'two'], 'replies');
  },

  // C-18
  'a message, its edit and its removal are handled in that order, whichever replicas they reach': async (lab) => {
    const kinds: (string | undefined)[] = [];
    const work: Work = async (ctx, self) => {
      kinds.push(ctx.message.kind);
      await self.sleep(ctx.message.kind === 'message' ? lab.leaseMs / 6 : 1);
    };
    const bots = await crew(lab, 3, work);

    for (const [n, kind] of ['message', 'edit', 'delete'].entries()) {
      await bots[n]!.provider.receive({ chat: 'k', id: `m ${kind}`, kind, text: kind });
    }
    await lab.until(2 * lab.leaseMs, () => lab.ends.length === 3, 'all ends');

    claimEqual(kinds, ['message', 'edit', 'delete'], 'kinds');
  },

  // C-20
  'work that takes a chat only if it is free is told at once that it is busy, and leaves no place': async (lab) => {
    const [a, b] = (await crew(lab, 2, (_ctx, self) => self.sleep(lab.leaseMs / 2))) as [LabBot, LabBot];
    await a.provider.receive({ chat: 'k', id: '1', text: 'one' });
    const background = await lab.mesh.replica();
    await lab.sleep(lab.leaseMs / 12);

    const askedMs = lab.mesh.clock.monotonicMs();
    const ticket = await background.coordinator.reserve('k');
    await claimRejects(background.coordinator.acquireTurn(ticket, { timeoutMs: 0 }), ['timeout'], 'the attempt');
    const tookMs = lab.mesh.clock.monotonicMs() - askedMs;
    await b.provider.receive({ chat: 'k', id: '2', text: 'two' });
    await lab.until(2 * lab.leaseMs, () => lab.sent.length === 2, 'both replies');

    claim(tookMs <= 2 * lab.mesh.slackMs, `it was told after ${tookMs} ms`);
    claimEqual(lab.textsTo('k'), ['one', 'two'], 'replies');
  },

  // C-23
  'a slow look-up in a handler lets no later message overtake': async (lab) => {
    const bots = await crew(lab, 2, (ctx, self) => self.sleep(ctx.message.text === 'first' ? 200 : 5));

    const taken = [
      bots[0]!.provider.receive({ chat: 'k', id: '1', text: 'first' }),
      bots[0]!.provider.receive({ chat: 'k', id: '2', text: 'second' }),
    ];
    await Promise.all(taken);
    await bots[1]!.provider.receive({ chat: 'k', id: '3', text: 'third' });
    await lab.until(2 * lab.leaseMs, () => lab.sent.length === 3, 'the replies');

    claimEqual(lab.textsTo('k'), ['first', 'second', 'third'], 'replies');
  },

  // C-28
  'a death is noticed by those who live, not by those who wait: the first short attempt after it is granted': async (
    lab,
  ) => {
    const [a, b] = [await lab.mesh.replica(), await lab.mesh.replica()];
    await take(a, 'k');
    await lab.sleep(lab.leaseMs / 3);
    a.crash();

    const early = await b.coordinator.reserve('k');
    await claimRejects(b.coordinator.acquireTurn(early, { timeoutMs: 1 }), ['timeout'], 'an attempt before that');
    await lab.sleep(lab.takenOverMs);
    const turn = await b.coordinator.acquireTurn(await b.coordinator.reserve('k'), { timeoutMs: lab.mesh.slackMs });

    turn.assertHeld();
    await turn.release();
  },

  // C-31, C-46
  'a replica frozen for ten leases is passed over; on waking it sends nothing and saves nothing': async (lab) => {
    const [a, b] = (await crew(lab, 2, async (ctx, self) => {
      listing(ctx, self);
      if (self === a) await self.sleep(lab.leaseMs / 2);
      await ctx.reply(`${(ctx.state.list as string[]).join(' ')} by ${self === a ? 'a' : 'b'}`);
    })) as [LabBot, LabBot];
    await a.provider.receive({ chat: 'k', id: '1', text: 'one' });
    await lab.sleep(lab.leaseMs / 6);

    a.freeze();
    await lab.until(lab.takenOverMs, () => lab.ends.length === 1, 'the end elsewhere');
    await lab.sleep(10 * lab.leaseMs);
    a.thaw();
    await lab.sleep(lab.leaseMs);
    await b.provider.receive({ chat: 'k', id: '2', text: 'two' });
    await lab.until(lab.leaseMs, () => lab.ends.length === 2, 'the end of the next');

    claimEqual(lab.textsTo('k'), ['one by b', 'one', 'one two by b', 'two'], 'replies');
  },

  // C-32
  'a handler that never ends is cut off after maxTurnMs, told of, and its late replies are refused': async (lab) => {
    const late: AnyContext[] = [];
    const reasons: string[] = [];
    const work: Work = (ctx, self) => {
      if (ctx.message.text !== 'hang') return undefined;
      late.push(ctx);
      ctx.signal.addEventListener('abort', () => reasons.push(nameOf(ctx.signal.reason)));
      return self.hang();
    };
    const [a, b] = (await crew(lab, 2, work, { maxTurnMs: lab.leaseMs / 3 })) as [LabBot, LabBot];
    await a.provider.receive({ chat: 'k', id: '1', text: 'hang' });
    await b.provider.receive({ chat: 'k', id: '2', text: 'next' });

    await lab.until(4 * lab.leaseMs, () => lab.sent.length === 1, 'the next reply');
    await claimRejects(late[0]!.reply('late'), ['stopped'], 'a late reply');

    claimEqual(lab.textsTo('k'), ['next'], 'replies');
    claimEqual(new Set(reasons), new Set(['turn-limit']), 'why they were aborted');
    claim(lab.errors.length === reasons.length && lab.errors.length >= 1, 'nobody was told');
  },

  // C-35
  'a turn whose work hangs for ever is ended from anywhere by a cancel, and what it does later is refused': async (
    lab,
  ) => {
    let late: AnyContext | undefined;
    const work: Work = (ctx, self) => {
      if (ctx.message.text !== 'hang') return undefined;
      late = ctx;
      return self.hang();
    };
    const [a, b] = (await crew(lab, 2, work, { graceMs: lab.leaseMs / 12 })) as [LabBot, LabBot];
    await a.provider.receive({ chat: 'k', id: '1', text: 'hang' });
    await b.provider.receive({ chat: 'k', id: '2', text: 'next' });
    await lab.sleep(3 * lab.leaseMs);
    claimEqual(lab.sent.length, 0, 'replies while it hangs');

    claimEqual(await b.bot.cancel('k', 'an operator'), true, 'whether a turn was running');
    await lab.until(lab.leaseMs, () => lab.sent.length === 1, 'the next reply');
    await late!.reply('late').then(
      () => claim(false, 'a late reply was sent'),
      () => {},
    );

    claimEqual(lab.endsOf('k'), ['1 cancelled', '2 handled'], 'ends');
    claimEqual(lab.textsTo('k'), ['next'], 'replies');
  },

  // C-36
  'the only replica that slept for ten leases goes on by itself, and handles once what it had begun': async (lab) => {
    const watch = new Watch();
    const [a] = (await crew(lab, 1, (ctx, self) => watch.during(ctx, () => self.sleep(lab.leaseMs / 3)))) as [LabBot];
    await a.provider.receive({ chat: 'k', id: '1', text: 'one' });
    await lab.sleep(lab.leaseMs / 6);

    a.replica.suspend();
    a.clock.freeze();
    await lab.sleep(10 * lab.leaseMs);
    a.thaw();
    await lab.until(3 * lab.leaseMs, () => lab.sent.length === 1, 'its reply');
    await lab.until(lab.leaseMs, () => lab.ends.length === 1, 'its end');
    let taken: unknown;
    for (let tries = 0; tries < 40 && taken === undefined; tries++) {
      taken = await a.provider.receive({ chat: 'k', id: '2', text: 'two' }).catch(() => lab.sleep(lab.leaseMs / 20));
    }
    await lab.until(2 * lab.leaseMs, () => lab.ends.length === 2, 'the end of the next');

    claimEqual(lab.textsTo('k'), ['one', 'two'], 'replies');
  },

  // C-38, C-39c
  'a replica that is cut off in its turn and ignores the signal neither replies nor saves over what others did': async (
    lab,
  ) => {
    const outcomes: string[] = [];
    const fences = new Map<LabBot, number>();
    const [a, b] = (await crew(lab, 2, async (ctx, self) => {
      listing(ctx, self);
      fences.set(self, ctx.turn.fence);
      if (self !== a) return;
      ctx.state.list = ['from a'];
      await self.sleep(4 * lab.leaseMs);
      await ctx.reply('from a').catch((error: unknown) => outcomes.push(nameOf(error)));
    })) as [LabBot, LabBot];
    await a.provider.receive({ chat: 'k', id: '1', text: 'one' });
    await lab.sleep(lab.leaseMs / 6);

    a.replica.cut();
    await lab.until(lab.takenOverMs, () => lab.ends.length === 1, 'the end elsewhere');
    a.replica.heal();
    await lab.until(5 * lab.leaseMs, () => outcomes.length === 1, 'the late reply');
    const saved = await lab.state.load('k');
    const late = lab.state.save('k', 'from a', fences.get(a)!);
    await claimRejects(late, ['stale-fence'], 'a write of its own under its fence');
    await lab.sleep(lab.leaseMs / 3);
    await b.provider.receive({ chat: 'k', id: '2', text: 'two' });
    await lab.until(lab.leaseMs, () => lab.ends.length === 2, 'the end of the next');

    claimEqual(lab.textsTo('k'), ['one', 'two'], 'replies');
    claim(saved!.fence > fences.get(a)! && saved!.fence < fences.get(b)!, 'the state was saved under another fence');
    claim(['superseded', 'expired', 'lease-lost'].includes(outcomes[0]!), `the late reply: ${outcomes[0]}`);
  },

  // C-39, C-39b
  'what is accepted while its chat’s owner ends, or by one that hears no push, is handled once': async (lab) => {
    const watch = new Watch();
    const [a, b] = (await crew(lab, 2, (ctx, self) => watch.during(ctx, () => self.sleep(lab.leaseMs / 60)))) as [
      LabBot,
      LabBot,
    ];
    b.replica.dropPushes(1);

    const stopped: Promise<void>[] = [];
    for (const n of upTo(12)) {
      await a.provider.receive({ chat: `chat ${n}`, id: 'a', text: `a ${n}` }).catch(() => {});
      await b.provider.receive({ chat: `chat ${n}`, id: 'b', text: `b ${n}` });
      if (n === 8) stopped.push(a.bot.stop({ drainMs: lab.leaseMs }));
    }
    await Promise.all(stopped);
    const isDone = (): boolean => lab.sent.filter(({ text }) => text.startsWith('b')).length === 12;
    await lab.until(4 * lab.leaseMs, isDone, 'the replies');
    await lab.sleep(lab.leaseMs / 2);

    claimEqual(new Set(watch.begun).size, watch.begun.length, 'different runs');
    claim(
      watch.begun.every((run) => run.endsWith(' 1')),
      'a message was tried twice',
    );
  },

  // C-40, C-47, C-65
  'of three replicas one is connected at any time, also when it dies, and messages flow on without a conflict': async (
    lab,
  ) => {
    const platform = new OneConnection();
    const bots = [];
    for (const name of ['a', 'b', 'c']) bots.push(await exclusive(lab, platform, name));
    await lab.until(lab.leaseMs, () => platform.connected !== undefined, 'a connection');
    let sent = 0;
    const write = async (): Promise<void> => {
      sent += 1;
      await platform.connected!.receive({ chat: 'k', id: `${sent}`, text: `${sent}` });
    };

    for (let death = 0; death < 2; death++) {
      await write();
      await write();
      const leader = bots.find(({ own }) => own === platform.connected)!;
      leader.crash();
      platform.drop(leader.own);
      await lab.until(lab.takenOverMs, () => platform.connected !== undefined, `a connection after death ${death + 1}`);
    }
    await write();
    await lab.until(2 * lab.takenOverMs, () => new Set(lab.textsTo('k')).size === 5, 'the replies');

    claimEqual(platform.conflicts, 0, 'conflicts');
    claimEqual([...new Set(lab.textsTo('k'))], ['1', '2', '3', '4', '5'], 'replies');
    claimEqual(new Set(lab.sent.map(({ key }) => key)).size, 5, 'different replies, by their keys');
  },

  // C-42, C-52
  'in deploys and quick restarts a connection is closed before the next one is made': async (lab) => {
    const platform = new OneConnection();
    let leader = await exclusive(lab, platform, '0');
    await lab.until(lab.leaseMs, () => platform.connected === leader.own, 'the first connection');

    for (let n = 1; n <= 5; n++) {
      const next = await exclusive(lab, platform, `${n}`);
      await leader.bot.stop({ drainMs: lab.leaseMs });
      await lab.until(lab.leaseMs, () => platform.connected === next.own, `connection ${n}`);
      leader = next;
    }

    claimEqual(platform.conflicts, 0, 'conflicts');
    claimEqual(
      platform.log,
      ['0 connects', ...upTo(5).flatMap((n) => [`${n - 1} closes`, `${n} connects`])],
      'what happened',
    );
  },

  // C-43
  'what a former leader writes or takes away under its term is refused': async (lab) => {
    const [a, b] = [await lab.mesh.replica(), await lab.mesh.replica()];
    const old = await a.coordinator.lead('session');
    await lab.state.save('credentials', { of: 'the session' }, old.term);
    a.freeze();
    const current = await b.coordinator.lead('session');
    await lab.state.save('credentials', { of: 'the session', renewed: true }, current.term);
    a.thaw();

    await claimRejects(lab.state.save('credentials', {}, old.term), ['stale-fence'], 'the write of the former leader');

    claimEqual((await lab.state.load('credentials'))?.value, { of: 'the session', renewed: true }, 'what is kept');
    claim(current.term > old.term, 'the terms did not grow');
  },

  // C-44
  'a leader whose platform refuses the connection lets another one lead, and does not fight for it': async (lab) => {
    const tries: string[] = [];
    const set = (bot: Bot): Bot => bot.use((ctx) => ctx.reply(ctx.message.text));
    const bad = new FakeProvider({ exclusive: true });
    bad.start = () => {
      tries.push('bad');
      throw new Error('replaced');
    };
    await lab.bot(set, { provider: bad });
    await lab.until(lab.leaseMs, () => tries.length === 1, 'its first try');
    const good = new FakeProvider({ exclusive: true });
    await lab.bot(set, { provider: good });
    await lab.until(lab.leaseMs, () => good.isStarted, 'the connection of the other');
    await lab.sleep(2 * lab.leaseMs);

    claim(tries.length <= 2, `it tried ${tries.length} times`);
    claim(good.isStarted, 'the connection did not last');
    claimEqual(
      lab.errors.map(nameOf),
      tries.map(() => 'replaced'),
      'what was told of',
    );
  },

  // C-46
  'a former leader that goes on listening has its messages refused, and one that both heard is answered once': async (
    lab,
  ) => {
    const platform = new OneConnection();
    const a = await exclusive(lab, platform, 'a');
    await lab.until(lab.leaseMs, () => platform.connected === a.own, 'the first connection');
    // It keeps its connection whatever it is told.
    a.own.stop = () => {};
    await a.own.receive({ chat: 'k', id: '1', text: 'one' });
    await lab.until(lab.leaseMs, () => lab.sent.length === 1, 'the first reply');
    const b = await exclusive(lab, platform, 'b');

    a.replica.cut();
    await lab.until(lab.takenOverMs, () => platform.connected === b.own, 'the next connection');
    a.replica.heal();
    const deaf = a.own.receive({ chat: 'k', id: '2', text: 'two' });
    await claimRejects(deaf, ['expired', 'superseded', 'lease-lost', 'stopped'], 'the message of the former leader');
    await b.own.receive({ chat: 'k', id: '2', text: 'two' });
    await b.own.receive({ chat: 'k', id: '1', text: 'one' });
    await lab.until(lab.leaseMs, () => lab.sent.length === 2, 'the second reply');
    await lab.sleep(lab.leaseMs / 3);

    claimEqual(lab.textsTo('k'), ['one', 'two'], 'replies');
  },

  // C-48, C-58
  'a message that every replica hears, under any envelope, is answered once, if its own name stays the same': async (
    lab,
  ) => {
    const bots = await crew(lab, 3, () => {});
    const copies = upTo(11).map((n) => ({ envelope: `event ${n}`, chat: 'k', at: '1700000000.000100' }));

    const answers = await Promise.all(
      copies.map(({ envelope, chat, at }, n) =>
        bots[n % 3]!.provider.receive({ chat, id: `${chat} ${at}`, text: 'hi', raw: { envelope } }),
      ),
    );
    await lab.until(lab.leaseMs, () => lab.sent.length === 1, 'the reply');
    await lab.sleep(lab.leaseMs / 3);

    claimEqual(answers.filter((answer) => answer === 'accepted').length, 1, 'copies that counted');
    claimEqual(lab.textsTo('k'), ['hi'], 'replies');
  },

  // C-49
  'two versions that write side by side lose no key of each other': async (lab) => {
    const [old, next] = (await crew(lab, 2, listing)) as [LabBot, LabBot];

    await Promise.all(
      upTo(60).map((n) => (n % 2 === 0 ? old : next).provider.receive({ chat: `chat ${n}`, id: '1', text: `${n}` })),
    );
    await lab.until(2 * lab.leaseMs, () => lab.ends.length === 60, 'all ends');
    await old.bot.stop();

    for (const n of upTo(60)) {
      const kept = (await lab.state.load(`chat ${n}`))?.value as { data?: unknown } | undefined;
      claimEqual(kept?.data, { list: [`${n}`] }, `what is kept of chat ${n}`);
    }
  },

  // C-53
  'who is not connected says that it stands by': async (lab) => {
    const platform = new OneConnection();
    const a = await exclusive(lab, platform, 'a');
    await lab.until(lab.leaseMs, () => platform.connected === a.own, 'the connection');
    const b = await exclusive(lab, platform, 'b');

    claimEqual([await readiness(a), await readiness(b)], [{ status: 'ready' }, { status: 'standby' }], 'readiness');
  },

  // C-57
  'a redelivery counts when the first delivery reached a replica that died': async (lab) => {
    const [a, b] = (await crew(lab, 2, () => {})) as [LabBot, LabBot];
    a.replica.cut('requests');
    a.provider.receive({ chat: 'k', id: '1', text: 'one' }).catch(() => {});
    await lab.sleep(1);
    a.crash();

    const answer = await b.provider.receive({ chat: 'k', id: '1', text: 'one' });
    await lab.until(lab.takenOverMs, () => lab.sent.length === 1, 'the reply');

    claimEqual(answer, 'accepted', 'the redelivery');
    claimEqual(lab.textsTo('k'), ['one'], 'replies');
  },

  // C-75
  'a replica whose wall clock is a minute off, either way, neither takes a chat early nor waits longer': async (
    lab,
  ) => {
    for (const byMs of [60_000, -60_000]) {
      const chat = `k ${byMs}`;
      const watch = new Watch();
      const work: Work = (ctx, self) =>
        watch.during(ctx, () => (ctx.message.text === 'long' ? self.sleep(2 * lab.leaseMs) : undefined));
      const [a, b] = (await crew(lab, 2, work)) as [LabBot, LabBot];
      b.replica.stepWall(byMs);
      await lab.sleep(lab.leaseMs);
      await a.provider.receive({ chat, id: '1', text: 'long' });
      let taken: unknown;
      for (let tries = 0; tries < 40 && taken === undefined; tries++) {
        taken = await b.provider.receive({ chat, id: '2', text: 'next' }).catch(() => lab.sleep(lab.leaseMs / 20));
      }
      await lab.until(3 * lab.leaseMs, () => lab.textsTo(chat).length === 2, 'both replies');

      claimEqual([watch.begun, watch.mostAtOnce], [['long 1', 'next 1'], 1], `runs with a clock off by ${byMs} ms`);
    }
  },
};

async function take(replica: TestReplica, key: string): Promise<ChatTurn> {
  return replica.coordinator.acquireTurn(await replica.coordinator.reserve(key));
}

function requestsOf({ counts }: TestReplica): number {
  return Object.values(counts.requests).reduce((sum, count) => sum + count, 0);
}
