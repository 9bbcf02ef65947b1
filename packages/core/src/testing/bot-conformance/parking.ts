import type { Bot } from '../../bot/Bot.js';
import { claim, claimEqual } from '../suite/claims.js';
import type { BotLab, LabBot } from './BotLab.js';

const LONG = 20;

/** Two replicas whose handlers throw for `bad`, as long as `isBroken`. */
async function pair(lab: BotLab): Promise<{ a: LabBot; b: LabBot; tried: string[]; mend: () => void }> {
  const tried: string[] = [];
  let isBroken = true;
  const set = (bot: Bot): void => {
    bot.use(async (ctx) => {
      tried.push(`${ctx.message.id} ${ctx.attempt}`);
      if (isBroken && ctx.message.text.startsWith('bad')) throw new TypeError(`no luck ${'x'.repeat(1_000)}`);
      await ctx.reply(ctx.message.text);
    });
  };
  const mend = (): void => {
    isBroken = false;
  };
  return { a: await lab.bot(set), b: await lab.bot(set), tried, mend };
}

export const parking: Record<string, (lab: BotLab) => Promise<void>> = {
  'a parked message is told of and listed everywhere, with the error that put it there': async (lab) => {
    const { a, b } = await pair(lab);
    await a.provider.receive({ chat: 'k', id: '1', text: 'bad' });
    await a.provider.receive({ chat: 'k', id: '2', text: 'good' });
    await lab.until(lab.leaseMs, () => lab.ends.length === 2, 'both ends');

    const [parked, ...more] = await b.bot.parked();

    claimEqual(lab.endsOf('k').toSorted(), ['1 parked', '2 handled'], 'ends');
    claimEqual(more, [], 'other parked messages');
    claimEqual(
      [parked?.chat, parked?.id, parked?.message?.text, parked?.attempts],
      ['k', '1', 'bad', 5],
      'what is listed',
    );
    const { error = '' } = parked!;
    claim(
      error.startsWith('TypeError: no luck xxx') && error.length <= 500,
      `the error listed is ${error.slice(0, 30)}`,
    );
    claimEqual(lab.ends.find(({ how }) => how === 'parked')?.reason, error, 'the reason told');
    claimEqual(await a.provider.receive({ chat: 'k', id: '1', text: 'bad' }), 'duplicate', 'its redelivery');
  },

  'a replayed message is tried as new, after what waits in its chat': async (lab) => {
    const { a, b, tried, mend } = await pair(lab);
    await a.provider.receive({ chat: 'k', id: '1', text: 'bad' });
    await lab.until(lab.leaseMs, () => lab.ends.length === 1, 'the parking');
    mend();
    tried.length = 0;

    const [parked] = await b.bot.parked();
    claimEqual(await b.bot.replay('k', parked!.seq), true, 'the replay');
    claimEqual(await b.bot.replay('k', parked!.seq), false, 'a second one');
    await lab.until(lab.leaseMs, () => lab.ends.length === 2, 'its end');

    claimEqual([tried, lab.textsTo('k'), await a.bot.parked()], [['1 1'], ['bad'], []], 'attempts, replies, parked');
  },

  'a dropped message is forgotten, and may be delivered again': async (lab) => {
    const { a, b, mend } = await pair(lab);
    await a.provider.receive({ chat: 'k', id: '1', text: 'bad' });
    await lab.until(lab.leaseMs, () => lab.ends.length === 1, 'the parking');
    mend();

    const [parked] = await a.bot.parked();
    claimEqual([await a.bot.drop('j', parked!.seq), await a.bot.drop('k', parked!.seq)], [false, true], 'drops');
    claimEqual([await b.bot.parked(), await b.bot.replay('k', parked!.seq)], [[], false], 'what is left');
    claimEqual(await b.provider.receive({ chat: 'k', id: '1', text: 'bad' }), 'accepted', 'its redelivery');
    await lab.until(lab.leaseMs, () => lab.sent.length === 1, 'the reply');
  },

  'a message that always fails does not take along those handled together with it': async (lab) => {
    const tried: string[] = [];
    const set = (bot: Bot): void => {
      bot.use(async (ctx) => {
        const texts = ctx.messages.map(({ text }) => text);
        tried.push(texts.join('+'));
        if (texts.includes('bad')) throw new Error('no luck');
        await ctx.reply(texts.join('+'));
      });
    };
    const a = await lab.bot(set, { overlap: { mode: 'collect', quietMs: lab.leaseMs / LONG } });
    for (const text of ['one', 'bad', 'two']) await a.provider.receive({ chat: 'k', id: text, text });
    await lab.until(3 * lab.leaseMs, () => lab.ends.length === 3, 'three ends');

    claimEqual(
      lab.endsOf('k').toSorted(),
      ['bad parked', 'one handled', 'two handled'],
      `ends, after ${tried.join(', ')}`,
    );
    claimEqual(lab.textsTo('k'), ['one', 'two'], 'replies');
  },
};
