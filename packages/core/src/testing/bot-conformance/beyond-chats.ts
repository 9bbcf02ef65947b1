import type { Bot } from '../../bot/Bot.js';
import { claim, claimEqual, claimRising } from '../suite/claims.js';
import type { BotLab, LabBot } from './BotLab.js';

const upTo = (count: number): string[] => Array.from({ length: count }, (_, n) => `chat ${n}`);

/** Adds one to what is kept of a user, as slowly as a handler may, and replies with it. */
const counting =
  (lab: BotLab) =>
  (bot: Bot, self: LabBot): void => {
    bot.use(async (ctx) => {
      const user = await ctx.hold('user');
      const before = Number(user.state.count ?? 0);
      await self.sleep(lab.mesh.slackMs / 4);
      user.state.count = before + 1;
      await ctx.reply(`${before + 1} under ${user.fence}`);
    });
  };

/** Facts of what reaches beyond one chat: keys that chats share, and messages to many. */
export const beyondChats: Record<string, (lab: BotLab) => Promise<void>> = {
  'handlers of several chats have a key one after the other, and no change is lost': async (lab) => {
    const bots = [];
    for (let n = 0; n < 3; n++) bots.push(await lab.bot(counting(lab)));

    for (let n = 0; n < 12; n++) {
      await bots[n % 3]!.provider.receive({ chat: `chat ${n % 4}`, id: `${n}`, from: 'ana', text: 'x' });
    }
    await lab.until(4 * lab.leaseMs, () => lab.sent.length === 12, 'all replies');

    const replies = lab.sent.map(({ text }) => text.split(' under ').map(Number));
    const inOrder = replies.toSorted(([a = 0], [b = 0]) => a - b);
    claimEqual(
      inOrder.map(([count]) => count),
      Array.from({ length: 12 }, (_, n) => n + 1),
      'the counts',
    );
    claimRising(
      inOrder.map(([, fence = 0]) => fence),
      'fences of the key',
    );
  },

  'chats that want two keys each, in any order, do not wait for each other for ever': async (lab) => {
    const set = (bot: Bot, self: LabBot): void => {
      bot.use(async (ctx) => {
        const [first, second] = ctx.message.text.split(' ') as [string, string];
        const held = await ctx.hold(first, second);
        await self.sleep(1);
        for (const each of held) each.state.count = Number(each.state.count ?? 0) + 1;
        await ctx.reply(held.map(({ key, state }) => `${key}=${String(state.count)}`).join(' '));
      });
    };
    const bots = [await lab.bot(set), await lab.bot(set)];
    const wishes = ['a b', 'b a', 'b c', 'c b', 'c a', 'a c'];

    for (let n = 0; n < 18; n++) {
      const text = wishes[n % wishes.length]!;
      void bots[n % 2]!.provider.receive({ chat: `chat ${n % 6}`, id: `${n}`, text });
    }
    await lab.until(4 * lab.leaseMs, () => lab.sent.length === 18, 'all replies');

    const counts = lab.sent.flatMap(({ text }) => text.split(' ')).filter((each) => each.startsWith('b='));
    claimEqual(new Set(counts).size, 12, 'different counts of one key');
  },

  'a key of a replica that died is had by others within the lease': async (lab) => {
    const set = (bot: Bot, self: LabBot): void => {
      bot.use(async (ctx) => {
        const user = await ctx.hold('user');
        if (ctx.message.text === 'hang' && ctx.attempt === 1) await self.hang();
        const count = Number(user.state.count ?? 0) + 1;
        user.state.count = count;
        await ctx.reply(`${ctx.message.text} ${count}`);
      });
    };
    const [a, b] = [await lab.bot(set), await lab.bot(set)];
    await a.provider.receive({ chat: 'one', id: '1', from: 'ana', text: 'hang' });
    await lab.sleep(4 * lab.mesh.slackMs);
    await b.provider.receive({ chat: 'two', id: '2', from: 'ana', text: 'next' });
    await lab.sleep(4 * lab.mesh.slackMs);
    claimEqual(lab.sent.length, 0, 'replies while the key is held elsewhere');

    a.crash();
    await lab.until(2 * lab.takenOverMs, () => lab.sent.length === 2, 'both replies');

    const counts = lab.sent.map(({ text }) => Number(text.split(' ')[1]));
    claimEqual(
      counts.toSorted((x, y) => x - y),
      [1, 2],
      'the counts',
    );
  },

  'a broadcast reaches every chat, and is run once however often it is called': async (lab) => {
    const bots = [await lab.bot(() => {}), await lab.bot(() => {}), await lab.bot(() => {})];

    const results = await Promise.all(bots.map(({ bot }) => bot.broadcast(upTo(30), 'news', { id: 'one' })));

    claimEqual(
      results.map(({ done }) => done),
      [30, 30, 30],
      'how far each call came',
    );
    claimEqual(lab.sent.map(({ chat }) => chat).toSorted(), upTo(30).toSorted(), 'the chats that were sent it');
  },

  'a broadcast whose replica died goes on where it was, and each chat takes it in once': async (lab) => {
    const [a, b] = [await lab.bot(() => {}), await lab.bot(() => {})];
    let passed = 0;
    const pace = async (chat: string): Promise<void> => {
      passed++;
      if (chat === 'chat 25') a.crash();
      await a.sleep(1);
    };
    a.bot.broadcast(upTo(50), 'news', { id: 'one', pace }).catch(() => {});
    await lab.until(4 * lab.leaseMs, () => a.clock.isKilled, 'the death of the first');

    const result = await b.bot.broadcast(upTo(50), 'news', { id: 'one' });
    const chats = (): Set<string> => new Set(lab.sent.map(({ chat }) => chat));
    await lab.until(2 * lab.takenOverMs, () => chats().size === 50, 'the message in every chat');

    claimEqual(result.done, 50, 'how far it came');
    claim(passed <= 26, 'the dead replica went on');
    claimEqual(new Set(lab.sent.map(({ key }) => key)).size, 50, 'different messages that were sent');
  },
};
