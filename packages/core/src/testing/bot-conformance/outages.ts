import type { Bot } from '../../bot/Bot.js';
import { claim, claimEqual } from '../suite/claims.js';
import type { BotLab } from './BotLab.js';

interface Ran {
  readonly id: string | undefined;
  readonly isLocal: boolean;
  readonly count: number;
}

function counting(ran: Ran[]) {
  return (bot: Bot): void => {
    bot.use(async (ctx) => {
      ctx.state.count = Number(ctx.state.count ?? 0) + 1;
      ran.push({ id: ctx.message.id, isLocal: ctx.isLocal, count: ctx.state.count as number });
      await ctx.reply(ctx.message.text);
    });
  };
}

const statusOf = async (bot: Bot): Promise<[number, string]> => {
  const answer = await bot.webhook(new Request('http://bot/readyz'));
  return [answer.status, ((await answer.json()) as { status: string }).status];
};

export const outages: Record<string, (lab: BotLab) => Promise<void>> = {
  // C-76
  'while the backend is away messages are refused, and taken in when it is back': async (lab) => {
    const ran: Ran[] = [];
    const { bot, provider, replica } = await lab.bot(counting(ran));
    await provider.receive({ chat: 'k', id: '1', text: 'one' });
    await lab.until(lab.leaseMs / 4, () => lab.ends.length === 1, 'the first end');

    replica.cut();
    const refused = await provider
      .receive({ chat: 'k', id: '2', text: 'two' })
      .catch((error: { code?: string }) => error.code);
    claimEqual([refused, await statusOf(bot)], ['unavailable', [503, 'unavailable']], 'the answer, and readiness');
    replica.heal();
    let answer: unknown;
    for (let tries = 0; tries < 40 && answer === undefined; tries++) {
      await lab.sleep(lab.leaseMs / 20);
      answer = await provider.receive({ chat: 'k', id: '2', text: 'two' }).catch(() => undefined);
    }
    await lab.until(lab.leaseMs, () => lab.ends.length === 2, 'the second end');

    claimEqual(
      ran.map(({ id, isLocal, count }) => [id, isLocal, count]),
      [
        ['1', false, 1],
        ['2', false, 2],
      ],
      'runs',
    );
  },

  // C-76
  'local: while the backend is away a replica goes on by its own order, and says so': async (lab) => {
    const ran: Ran[] = [];
    const { bot, provider, replica } = await lab.bot(counting(ran), { onUnavailable: 'local' });
    const told: (string | undefined)[] = [];
    bot.on('local', ({ id }) => told.push(id));
    await provider.receive({ chat: 'k', id: '1', text: 'one' });
    await lab.until(lab.leaseMs / 4, () => lab.ends.length === 1, 'the first end');

    replica.cut();
    await Promise.all(['2', '3', '4'].map((id) => provider.receive({ chat: 'k', id, text: id })));
    claimEqual(await provider.receive({ chat: 'k', id: '3', text: '3' }), 'duplicate', 'a redelivery');
    await lab.until(lab.leaseMs / 2, () => lab.sent.length === 4, 'the replies');
    claimEqual(await statusOf(bot), [200, 'local'], 'readiness');

    replica.heal();
    for (let tries = 0; tries < 40 && (await statusOf(bot))[1] !== 'ready'; tries++) await lab.sleep(lab.leaseMs / 20);
    await provider.receive({ chat: 'k', id: '5', text: 'five' });
    await lab.until(lab.leaseMs, () => ran.some(({ id }) => id === '5'), 'the run after it came back');
    // What was sent as the connection broke may have been taken in: then the mesh hands it out now.
    await lab.until(lab.leaseMs, () => lab.ends.length >= 5, 'all ends');

    const local = ran.filter(({ isLocal }) => isLocal);
    claimEqual(
      local.map(({ id, count }) => [id, count]),
      [
        ['2', 1],
        ['3', 2],
        ['4', 3],
      ],
      'local runs, with their own state',
    );
    claimEqual(told, ['2', '3', '4'], 'what the event told');
    const last = ran.find(({ id }) => id === '5')!;
    claim(!last.isLocal && last.count >= 2, `after it came back: ${JSON.stringify(last)}`);
    claimEqual(await bot.cancel('k'), false, 'whether a turn is running');
  },

  'local: in one process a message is never handled beside an earlier one of its chat, as the backend goes and comes':
    async (lab) => {
      const begun: string[] = [];
      let most = 0;
      let running = 0;
      const set = (bot: Bot, self: { sleep: (ms: number) => Promise<void> }): void => {
        bot.use(async (ctx) => {
          begun.push(`${ctx.message.id} ${ctx.isLocal ? 'local' : 'mesh'}`);
          running += 1;
          most = Math.max(most, running);
          await self.sleep(lab.leaseMs / 4);
          running -= 1;
        });
      };
      const { bot, provider, replica } = await lab.bot(set, { onUnavailable: 'local' });
      const take = (id: string): Promise<unknown> => provider.receive({ chat: 'k', id, text: id });
      await take('1');
      await lab.until(lab.leaseMs / 4, () => begun.length === 1, 'the first run');

      replica.cut();
      // The first one holds its turn for as long as its trust lasts.
      await take('2');
      await take('3');
      await lab.until(2 * lab.leaseMs, () => begun.length === 2, 'the second run');
      replica.heal();
      for (let tries = 0; tries < 40 && (await statusOf(bot))[1] !== 'ready'; tries++)
        await lab.sleep(lab.leaseMs / 60);
      await take('4');
      await lab.until(3 * lab.leaseMs, () => begun.some((run) => run === '4 mesh') && running === 0, 'all runs');

      claimEqual(most, 1, 'runs at once');
      // The end of the first could not be confirmed: it may come again.
      const others = begun.filter((run) => !run.startsWith('1'));
      claimEqual(
        others.filter((run, at) => others.indexOf(run) === at && !(run.endsWith('mesh') && run !== '4 mesh')),
        ['2 local', '3 local', '4 mesh'],
        'runs',
      );
    },

  'local: what was taken in alone is handled before a stop has ended': async (lab) => {
    const set = (bot: Bot, self: { sleep: (ms: number) => Promise<void> }): void => {
      bot.use(async (ctx) => {
        await self.sleep(lab.leaseMs / 20);
        await ctx.reply(ctx.message.text);
      });
    };
    const { bot, provider, replica } = await lab.bot(set, { onUnavailable: 'local' });
    replica.cut();
    const texts = ['1', '2', '3', '4'];
    await Promise.all(texts.map((id) => provider.receive({ chat: 'k', id, text: id })));

    const stopped = bot.stop({ drainMs: 2 * lab.leaseMs });
    await lab.until(lab.leaseMs, () => lab.sent.length === 4, 'the replies');
    replica.heal();
    await stopped;

    claimEqual(lab.textsTo('k'), texts, 'replies');
  },
};
