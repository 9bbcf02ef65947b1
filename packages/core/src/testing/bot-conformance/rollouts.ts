import type { Bot } from '../../bot/Bot.js';
import { claim, claimEqual } from '../suite/claims.js';
import type { BotLab, LabBot } from './BotLab.js';

/** How long an old replica that met a newer version takes nothing over. */
const GIVE_WAY_MS = 10_000;

const counting = (bot: Bot): void => {
  bot.use(async (ctx) => {
    const count = Number(ctx.state.count ?? 0) + 1;
    ctx.state.count = count;
    await ctx.reply(`${ctx.message.id} ${count} ${ctx.attempt}`);
  });
};

const old = (lab: BotLab): Promise<LabBot> => lab.bot(counting, { state: { store: lab.state, version: 1 } });
const young = (lab: BotLab): Promise<LabBot> =>
  lab.bot(counting, { state: { store: lab.state, version: 2, migrate: (data: unknown) => data as object } });

const codesOf = (lab: BotLab): Set<unknown> => new Set(lab.errors.map((error) => (error as { code?: string }).code));

export const rollouts: Record<string, (lab: BotLab) => Promise<void>> = {
  'a message whose chat has state of a newer version goes from old replicas to a new one, in its place, uncounted':
    async (lab) => {
      const [a, b, c] = [await old(lab), await old(lab), await young(lab)];
      await c.provider.receive({ chat: 'k', id: '1', text: 'x' });
      await lab.until(lab.leaseMs, () => lab.ends.length === 1, 'the first end');

      for (const [n, id] of ['2', '3', '4', '5', '6'].entries()) {
        await (n % 2 === 0 ? a : b).provider.receive({ chat: 'k', id, text: 'x' });
      }
      await lab.until(5 * (GIVE_WAY_MS + lab.leaseMs), () => lab.ends.length === 6, 'all ends');

      claimEqual(lab.textsTo('k'), ['1 1 1', '2 2 1', '3 3 1', '4 4 1', '5 5 1', '6 6 1'], 'replies');
      claimEqual([...codesOf(lab)], ['newer-version'], 'what was told of');
      claimEqual(await c.bot.parked(), [], 'parked messages');
    },

  'where only old replicas live it waits, is not parked, and is handled when a new one comes': async (lab) => {
    const c = await young(lab);
    await c.provider.receive({ chat: 'k', id: '1', text: 'x' });
    await lab.until(lab.leaseMs, () => lab.ends.length === 1, 'the first end');
    const [a, b] = [await old(lab), await old(lab)];
    await c.bot.stop();

    await a.provider.receive({ chat: 'k', id: '2', text: 'x' });
    await b.provider.receive({ chat: 'k', id: '3', text: 'x' });
    await b.provider.receive({ chat: 'other', id: '1', text: 'x' });
    await lab.sleep(6 * GIVE_WAY_MS);
    // No more than a try now and then: nobody passes it back and forth.
    claim(lab.errors.length <= 2 * 6 + 2, `it was tried ${lab.errors.length} times in a minute`);
    claimEqual([lab.textsTo('k'), lab.textsTo('other')], [['1 1 1'], ['1 1 1']], 'replies meanwhile');
    await young(lab);
    await lab.until(4 * (GIVE_WAY_MS + lab.leaseMs), () => lab.textsTo('k').length === 3, 'the ends');

    claimEqual(lab.textsTo('k'), ['1 1 1', '2 2 1', '3 3 1'], 'replies');
    claimEqual(await a.bot.parked(), [], 'parked messages');
  },

  'a replica that gave way to a newer version takes over what a dead one leaves, a while later': async (lab) => {
    const a = await old(lab);
    const dying = await lab.bot((bot, self) => bot.use(() => self.hang()));
    await lab.state.save('k', { v: 1, data: {}, version: 2 }, 1);
    await dying.provider.receive({ chat: 'other', id: '1', text: 'x' });
    await a.provider.receive({ chat: 'k', id: '1', text: 'x' });
    await lab.until(lab.leaseMs, () => lab.errors.length > 0, 'the meeting');

    dying.crash();

    await lab.until(2 * (GIVE_WAY_MS + lab.takenOverMs), () => lab.textsTo('other').length > 0, 'the reply');
  },
};
