import type { Bot } from '../../bot/Bot.js';
import { claim, claimEqual } from '../suite/claims.js';
import type { BotLab, LabBot } from './BotLab.js';

interface Ran {
  readonly text: string;
  readonly attempt: number;
  readonly by: LabBot;
}

/** A handler that notes what it ran, and takes as long as the text says in leases: `b 0.5`. */
function slow(lab: BotLab, ran: Ran[]) {
  return (bot: Bot, self: LabBot): void => {
    bot.use(async (ctx) => {
      const { text } = ctx.message;
      ran.push({ text, attempt: ctx.attempt, by: self });
      const leases = Number(text.split(' ')[1] ?? 0);
      if (leases > 0) await self.sleep(leases * lab.leaseMs);
      await ctx.reply(text);
    });
  };
}

export const draining: Record<string, (lab: BotLab) => Promise<void>> = {
  // C-63
  'a stop passes on at once what waits, uncounted, while its running turns go on to their ends': async (lab) => {
    const ran: Ran[] = [];
    const a = await lab.bot(slow(lab, ran));
    const b = await lab.bot(slow(lab, ran));
    await a.provider.receive({ chat: 'long', id: '1', text: 'long 2' });
    await lab.until(lab.leaseMs / 4, () => ran.length === 1, 'the first turn');
    await a.provider.receive({ chat: 'long', id: '2', text: 'after' });
    await b.provider.receive({ chat: 'short', id: '1', text: 'short 0.5' });
    await a.provider.receive({ chat: 'short', id: '2', text: 'next' });
    await lab.until(lab.leaseMs / 4, () => ran.length === 2, 'two running turns');

    let isStopped = false;
    const stopped = a.bot.stop({ drainMs: 4 * lab.leaseMs }).then(() => {
      isStopped = true;
    });
    await lab.sleep(lab.leaseMs / 12);
    // Of each replica over all shards: its two chats may be in two of them.
    const places = new Map<string, number>();
    for (const { replicaId, tickets } of (await lab.mesh.inspect()).flatMap(({ replicas }) => replicas)) {
      places.set(replicaId, (places.get(replicaId) ?? 0) + tickets);
    }
    claimEqual([...places.values()], [1, 1], 'places that each replica has once what waits is passed on');
    await lab.until(lab.leaseMs, () => ran.length === 3, 'the message that waited, while the other turn runs');
    claim(!isStopped, 'the stop did not wait for its running turn');
    await stopped;
    await lab.until(lab.leaseMs, () => ran.length === 4, 'what waited behind the running turn');

    claimEqual(
      ran.map(({ text, attempt, by }) => [text, attempt, by === a ? 'a' : 'b']),
      [
        ['long 2', 1, 'a'],
        ['short 0.5', 1, 'b'],
        ['next', 1, 'b'],
        ['after', 1, 'b'],
      ],
      'what ran where',
    );
    await lab.until(lab.leaseMs, () => lab.sent.length === 4, 'the replies');
    claimEqual(
      [lab.textsTo('long'), lab.textsTo('short')],
      [
        ['long 2', 'after'],
        ['short 0.5', 'next'],
      ],
      'replies',
    );
  },

  // C-63
  'a stop hands over what waits also when the store is slow to hear of it': async (lab) => {
    const ran: Ran[] = [];
    const a = await lab.bot(slow(lab, ran));
    await lab.bot(slow(lab, ran));
    await a.provider.receive({ chat: 'long', id: '1', text: 'long 2' });
    const chats = Array.from({ length: 10 }, (_, n) => `k${n}`);
    for (const [n, chat] of chats.entries()) {
      await a.provider.receive({ chat, id: '1', text: `first ${0.05 + n * 0.002}` });
      await a.provider.receive({ chat, id: '2', text: 'second' });
      await a.provider.receive({ chat, id: '3', text: 'third' });
    }
    a.replica.delay({ minMs: 1, maxMs: lab.leaseMs / 50 });

    await lab.sleep(lab.leaseMs * 0.04);
    const stopped = a.bot.stop({ drainMs: 4 * lab.leaseMs });
    await lab.until(1.5 * lab.leaseMs, () => lab.sent.length === 30, 'all that waited, while one turn runs on');
    claim(!lab.ends.some(({ chat }) => chat === 'long'), 'the long turn had ended before');
    await stopped;

    for (const chat of chats) {
      claimEqual(
        lab.textsTo(chat).map((text) => text.split(' ')[0]),
        ['first', 'second', 'third'],
        `replies to ${chat}`,
      );
    }
    claim(
      ran.every(({ attempt }) => attempt === 1),
      'a message that was passed on counted as tried',
    );
  },

  // C-30
  'from the moment of the stop nothing is taken in, and readyz says so': async (lab) => {
    const ran: Ran[] = [];
    const { bot, provider } = await lab.bot(slow(lab, ran));
    const ready = async (): Promise<number> => (await bot.webhook(new Request('http://bot/readyz'))).status;
    const before = await ready();
    await provider.receive({ chat: 'k', id: '1', text: 'first 0.3' });

    const stopped = bot.stop();
    const status = await ready();
    const late = await provider
      .receive({ chat: 'k', id: '2', text: 'late' })
      .catch((error: { code?: string }) => error.code);
    await stopped;

    claimEqual([before, status], [200, 503], 'readiness before and after');
    claim(late === 'stopped' || late === 'not-started', `a late message was answered ${String(late)}`);
    claimEqual(lab.textsTo('k'), ['first 0.3'], 'replies');
  },

  'messages taken in while the stop begins are lost neither way': async (lab) => {
    const ran: Ran[] = [];
    const a = await lab.bot(slow(lab, ran));
    const b = await lab.bot(slow(lab, ran));
    const texts = Array.from({ length: 8 }, (_, n) => `m${n}`);

    const taken = texts.map((text) =>
      a.provider.receive({ chat: `chat ${text}`, id: text, text }).then(
        () => text,
        () => undefined,
      ),
    );
    await Promise.all([a.bot.stop({ drainMs: lab.leaseMs }), ...taken]);
    const accepted = (await Promise.all(taken)).filter((text) => text !== undefined);
    await lab.until(lab.leaseMs, () => lab.sent.length >= accepted.length, 'the replies to what was taken in');
    await lab.sleep(lab.leaseMs / 6);

    claimEqual(lab.sent.map(({ text }) => text).toSorted(), accepted.toSorted(), 'replies');
    claim(b.provider.isStarted, 'the other replica went along');
  },

  'at the deadline what still runs is aborted, and handled elsewhere as if it had not begun': async (lab) => {
    const reasons: unknown[] = [];
    const attempts: number[] = [];
    const set = (bot: Bot, self: LabBot): void => {
      bot.use(async (ctx) => {
        attempts.push(ctx.attempt);
        if (attempts.length > 1) return ctx.reply('done');
        ctx.signal.addEventListener('abort', () => reasons.push(ctx.signal.reason));
        return self.sleep(100 * lab.leaseMs);
      });
    };
    const a = await lab.bot(set);
    await lab.bot(set);
    await a.provider.receive({ chat: 'k', id: '1', text: 'x' });
    await lab.until(lab.leaseMs / 4, () => attempts.length === 1, 'the first attempt');

    await a.bot.stop({ drainMs: lab.leaseMs / 10 });
    await lab.until(lab.leaseMs / 2, () => lab.sent.length === 1, 'the reply');

    claimEqual(attempts, [1, 1], 'attempts');
    claimEqual((reasons[0] as { reason?: string } | undefined)?.reason, 'stopped', 'why it was aborted');
  },
};
