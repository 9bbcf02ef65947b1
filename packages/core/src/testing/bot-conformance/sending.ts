import type { Bot } from '../../bot/Bot.js';
import type { UnknownSend } from '../../bot/events.js';
import type { BotOptions } from '../../bot/options.js';
import { RateLimitedError } from '../../errors.js';
import { claim, claimEqual } from '../suite/claims.js';
import type { BotLab, LabBot } from './BotLab.js';

/** Two replicas. On the first, the reply `hangs` reaches the platform, and its answer never comes. */
async function crashAt(
  lab: BotLab,
  hangs: string | undefined,
  onUnknownSend: BotOptions['onUnknownSend'],
): Promise<{ unknown: UnknownSend[]; keys: string[] }> {
  const unknown: UnknownSend[] = [];
  let isHanging = true;
  const set = (bot: Bot, self: LabBot): void => {
    bot.on('unknownSend', (send) => unknown.push(send));
    bot.use(async (ctx) => {
      await ctx.reply('one');
      await ctx.reply('two');
      if (isHanging && hangs === undefined) await self.sleep(Number.MAX_SAFE_INTEGER);
      await ctx.reply('three');
    });
  };
  const options = onUnknownSend === undefined ? {} : { onUnknownSend };
  const a = await lab.bot(set, options);
  await lab.bot(set, options);
  a.provider.onSend = async (chat, reply, { fence, key }) => {
    if (!isHanging || reply.text !== hangs) return;
    lab.sent.push({ chat, text: reply.text, reply, fence, key });
    await a.sleep(Number.MAX_SAFE_INTEGER);
  };
  await a.provider.receive({ chat: 'k', id: '1', text: 'x' });
  await lab.until(lab.leaseMs / 2, () => lab.sent.length === 2, 'two replies');

  isHanging = false;
  a.crash();
  await lab.until(lab.takenOverMs + lab.leaseMs, () => lab.ends.length === 1, 'the end');
  return { unknown, keys: lab.sent.map(({ key }) => key) };
}

const textsSent = (lab: BotLab): string[] => lab.sent.map(({ text }) => text);

export const sending: Record<string, (lab: BotLab) => Promise<void>> = {
  'a new attempt sends no more what the failed one has sent, but what is different in its place': async (lab) => {
    const set = (bot: Bot): void => {
      bot.use(async (ctx) => {
        await ctx.reply('working on it');
        await ctx.reply(`attempt ${ctx.attempt}`);
        if (ctx.attempt < 3) throw new Error('not yet');
        await ctx.reply('done');
      });
    };
    const onError: BotOptions['onError'] = (_error, ctx) => ctx?.reply('sorry');
    const a = await lab.bot(set, { onError });
    await a.provider.receive({ chat: 'k', id: '1', text: 'x' });
    await lab.until(lab.leaseMs, () => lab.ends.length === 1, 'the end');

    const expected = ['working on it', 'attempt 1', 'sorry', 'attempt 2', 'sorry', 'attempt 3', 'done'];
    claimEqual(textsSent(lab), expected, 'replies');
    claimEqual(new Set(lab.sent.map(({ key }) => key)).size, expected.length, 'different keys');
  },

  'after a crash without a record all is sent again, under the same keys': async (lab) => {
    const { unknown, keys } = await crashAt(lab, undefined, undefined);

    claimEqual(textsSent(lab), ['one', 'two', 'one', 'two', 'three'], 'replies');
    claimEqual([keys.slice(0, 2), unknown], [keys.slice(2, 4), []], 'keys, and what is told of');
  },

  'after a crash nothing is sent again that is on record as sent': async (lab) => {
    const { unknown } = await crashAt(lab, 'two', 'drop');

    claimEqual(textsSent(lab), ['one', 'two', 'three'], 'replies');
    claimEqual(
      unknown.map(({ chat, id, did }) => [chat, id, did]),
      [['k', '1', 'dropped']],
      'what is told of',
    );
  },

  'a reply whose fate is unknown is sent again where that is wanted, under the same key': async (lab) => {
    const { unknown, keys } = await crashAt(lab, 'two', 'resend');

    claimEqual(textsSent(lab), ['one', 'two', 'two', 'three'], 'replies');
    claimEqual([keys[1], unknown.map(({ did }) => did)], [keys[2], ['resent']], 'the key, and what is told of');
  },

  'the record of what was sent keeps the state as it was, and goes with the message': async (lab) => {
    const set = (bot: Bot): void => {
      bot.when('count', async (ctx) => {
        ctx.state.count = Number(ctx.state.count ?? 0) + 1;
        await ctx.reply('first');
        if (ctx.attempt === 1) throw new Error('after the first reply');
        await ctx.reply(`count ${ctx.state.count as number}`);
      });
    };
    const a = await lab.bot(set, { onUnknownSend: 'drop' });
    for (const id of ['1', '2']) await a.provider.receive({ chat: 'k', id, text: 'count' });
    await lab.until(lab.leaseMs, () => lab.ends.length === 2, 'both ends');

    claimEqual(textsSent(lab), ['first', 'count 1', 'first', 'count 2'], 'replies');
  },

  // C-67
  'a reply that the platform holds back is not overtaken by later ones of its chat; other chats go on': async (lab) => {
    const set = (bot: Bot): void => {
      bot.use(async (ctx) => {
        for (const n of [1, 2, 3]) void ctx.reply(`${ctx.message.text}${n}`);
      });
    };
    const bots = [await lab.bot(set), await lab.bot(set)];
    let refusals = 0;
    for (const { provider } of bots) {
      provider.onSend = (_chat, { text }) => {
        if (text === 'a1' && refusals++ === 0) throw new RateLimitedError(lab.leaseMs / 4, { scope: 'chat' });
      };
    }
    await bots[0]!.provider.receive({ chat: 'k', id: '1', text: 'a' });
    await bots[1]!.provider.receive({ chat: 'k', id: '2', text: 'b' });
    await bots[0]!.provider.receive({ chat: 'other', id: '1', text: 'c' });
    await lab.until(2 * lab.leaseMs, () => lab.ends.length === 3, 'all ends');

    claimEqual(lab.textsTo('k'), ['a1', 'a2', 'a3', 'b1', 'b2', 'b3'], 'replies to the chat that was held back');
    claimEqual(textsSent(lab).slice(0, 3), ['c1', 'c2', 'c3'], 'what left first');
  },

  'replies of all replicas together keep the rates of the account and of each chat': async (lab) => {
    const everyMs = lab.leaseMs / 60;
    const rates = { account: { perSecond: 1_000 / everyMs, burst: 3 }, chat: { perSecond: 250 / everyMs } };
    const set = (bot: Bot): void => {
      bot.use(async (ctx) => {
        for (const n of [1, 2, 3]) await ctx.reply(`${n}`);
      });
    };
    const times: { chat: string; atMs: number }[] = [];
    const bots = [await lab.bot(set, { rates }), await lab.bot(set, { rates })];
    for (const { provider } of bots) {
      provider.onSend = (chat) => void times.push({ chat, atMs: lab.mesh.clock.monotonicMs() });
    }
    for (let n = 0; n < 8; n++) await bots[n % 2]!.provider.receive({ chat: `k${n}`, id: '1', text: 'x' });
    await lab.until(6 * lab.leaseMs, () => lab.ends.length === 8, 'all ends');

    // A late timer on a busy host may bring a send closer to the next one, which was timed from its slot.
    const slackMs = everyMs / 2 + lab.mesh.slackMs / 4;
    const apart = (list: number[], ahead: number): number =>
      Math.min(...list.slice(ahead).map((atMs, n) => atMs - list[n]!));
    const all = times.map(({ atMs }) => atMs);
    claimEqual(all.length, 24, 'sends');
    claim(
      apart(all, 8) >= 5 * everyMs - slackMs,
      `nine sends within ${Math.round(apart(all, 8))} ms, one each ${everyMs} ms`,
    );
    for (let n = 0; n < 8; n++) {
      const own = times.filter(({ chat }) => chat === `k${n}`).map(({ atMs }) => atMs);
      claim(apart(own, 1) >= 4 * everyMs - slackMs, `two sends to k${n} within ${Math.round(apart(own, 1))} ms`);
    }
  },

  'a pause that the platform asks of the account is kept by all replicas at once': async (lab) => {
    const pauseMs = lab.leaseMs / 2;
    const rates = { account: { perSecond: 100_000 / lab.leaseMs, burst: 50 } };
    const set = (bot: Bot): void => {
      bot.use((ctx) => ctx.reply(ctx.message.text));
    };
    const bots = [await lab.bot(set, { rates }), await lab.bot(set, { rates })];
    let refusedMs: number | undefined;
    const earliest: number[] = [];
    for (const { provider } of bots) {
      provider.onSend = () => {
        const nowMs = lab.mesh.clock.monotonicMs();
        if (refusedMs !== undefined) return void earliest.push(nowMs - refusedMs);
        refusedMs = nowMs;
        throw new RateLimitedError(pauseMs);
      };
    }
    await bots[0]!.provider.receive({ chat: 'a', id: '1', text: 'first' });
    await lab.until(lab.leaseMs / 4, () => refusedMs !== undefined, 'the refusal');
    await lab.sleep(lab.leaseMs / 20);
    await bots[1]!.provider.receive({ chat: 'b', id: '1', text: 'second' });
    await lab.until(3 * lab.leaseMs, () => lab.ends.length === 2, 'both ends');

    claim(
      Math.min(...earliest) >= pauseMs - lab.mesh.slackMs,
      `a send ${Math.round(Math.min(...earliest))} ms after the refusal`,
    );
  },
};
