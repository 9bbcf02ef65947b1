import type { Bot } from '../../bot/Bot.js';
import type { BotOptions } from '../../bot/options.js';
import { claim, claimEqual } from '../suite/claims.js';
import type { BotLab, LabBot } from './BotLab.js';

/** What a call from anywhere may take to reach a turn. */
const reachMs = (lab: BotLab): number => 1_000 + 4 * lab.mesh.slackMs;

interface Ran {
  readonly text: string;
  readonly attempt: number;
  reason?: { code?: string; reason?: string };
}

/** Replicas whose handlers run `work`, unless the text is `quick`. */
async function crew(
  lab: BotLab,
  work: (ran: Ran, self: LabBot, signal: AbortSignal) => unknown,
  options: Partial<BotOptions> = {},
): Promise<{ a: LabBot; b: LabBot; ran: Ran[] }> {
  const ran: Ran[] = [];
  const set = (bot: Bot, self: LabBot): void => {
    bot.use(async (ctx) => {
      const run: Ran = { text: ctx.message.text, attempt: ctx.attempt };
      ran.push(run);
      ctx.signal.addEventListener('abort', () => {
        run.reason = ctx.signal.reason as { code?: string; reason?: string };
      });
      ctx.state.last = run.text;
      if (run.text !== 'quick') await work(run, self, ctx.signal);
      await ctx.reply(`${run.text} ${ctx.attempt}`);
    });
  };
  return { a: await lab.bot(set, options), b: await lab.bot(set, options), ran };
}

const whenAborted = (signal: AbortSignal): Promise<void> =>
  new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason as Error)));

export const calls: Record<string, (lab: BotLab) => Promise<void>> = {
  // C-70
  'a cancel reaches the running turn wherever it runs, within a second; the message is not tried again': async (
    lab,
  ) => {
    const { a, b, ran } = await crew(lab, (_run, _self, signal) => whenAborted(signal));
    await a.provider.receive({ chat: 'k', id: '1', text: 'slow' });
    await a.provider.receive({ chat: 'k', id: '2', text: 'quick' });
    await lab.until(lab.leaseMs / 4, () => ran.length === 1, 'the first run');

    claimEqual(await b.bot.cancel('k', 'the user said stop'), true, 'whether a turn was running');
    await lab.until(reachMs(lab), () => lab.ends.length === 2, 'both ends');

    claimEqual(
      [ran[0]?.reason?.code, ran[0]?.reason?.reason],
      ['cancelled', 'the user said stop'],
      'what the signal said',
    );
    claimEqual(
      ran.map(({ text, attempt }) => [text, attempt]),
      [
        ['slow', 1],
        ['quick', 1],
      ],
      'runs',
    );
    claimEqual(lab.endsOf('k'), ['1 cancelled', '2 handled'], 'ends');
    claimEqual(lab.ends[0]?.reason, 'the user said stop', 'the reason in the event');
    claimEqual([lab.errors.length, lab.textsTo('k')], [0, ['quick 1']], 'errors told of, and replies');
    claimEqual(await a.provider.receive({ chat: 'k', id: '1', text: 'slow' }), 'duplicate', 'its redelivery');
    claimEqual(await a.bot.cancel('k'), false, 'whether a turn was running, when none was');
  },

  'a handler that ignores a cancel is cut off after a grace, and its late replies are refused': async (lab) => {
    const late: unknown[] = [];
    const ran: string[] = [];
    const set = (bot: Bot, self: LabBot): void => {
      bot.use(async (ctx) => {
        ran.push(ctx.message.text);
        if (ctx.message.text === 'deaf') await self.sleep(lab.leaseMs);
        await ctx.reply(ctx.message.text).catch((error: unknown) => late.push(error));
      });
    };
    const options = { graceMs: lab.leaseMs / 10 };
    const [a, b] = [await lab.bot(set, options), await lab.bot(set, options)];
    await a.provider.receive({ chat: 'k', id: '1', text: 'deaf' });
    await a.provider.receive({ chat: 'k', id: '2', text: 'quick' });
    await lab.until(lab.leaseMs / 4, () => ran.length === 1, 'the first run');

    await b.bot.cancel('k');
    await lab.until(lab.leaseMs / 2, () => lab.ends.length === 2, 'both ends');
    await lab.until(2 * lab.leaseMs, () => late.length === 1, 'the end of the handler');

    claimEqual((late[0] as { code?: string }).code, 'cancelled', 'what its late reply was told');
    claimEqual(lab.endsOf('k'), ['1 cancelled', '2 handled'], 'ends');
    claimEqual(lab.textsTo('k'), ['quick'], 'replies');
  },

  'a cancel ends a turn that waits for its next attempt': async (lab) => {
    const { a, b, ran } = await crew(
      lab,
      () => {
        throw new Error('no');
      },
      { retryDelayMs: 9_000 },
    );
    await a.provider.receive({ chat: 'k', id: '1', text: 'bad' });
    await lab.until(lab.leaseMs / 4, () => lab.errors.length === 1, 'the first failure');
    await lab.sleep(lab.leaseMs / 20);

    claimEqual(await b.bot.cancel('k'), true, 'whether a turn was running');
    await lab.until(reachMs(lab), () => lab.ends.length === 1, 'the end');

    claimEqual([lab.endsOf('k'), ran.length], [['1 cancelled'], 1], 'ends and runs');
  },

  'a cancelled run of several messages ends all of them': async (lab) => {
    const { a, b, ran } = await crew(lab, (_run, _self, signal) => whenAborted(signal), {
      overlap: { mode: 'collect', quietMs: lab.leaseMs / 10 },
    });
    await a.provider.receive({ chat: 'k', id: '1', text: 'one' });
    await b.provider.receive({ chat: 'k', id: '2', text: 'two' });
    await lab.until(lab.leaseMs, () => ran.length === 1, 'the run');

    await b.bot.cancel('k');
    await lab.until(reachMs(lab), () => lab.ends.length === 2, 'both ends');
    await lab.sleep(lab.leaseMs / 2);

    claimEqual([lab.endsOf('k'), ran.length], [['1 cancelled', '2 cancelled'], 1], 'ends and runs');
  },

  'what is steered reaches the running handler wherever it runs, in order, also what came before it listened': async (
    lab,
  ) => {
    const heard: unknown[] = [];
    let isOpen = false;
    const set = (bot: Bot, self: LabBot): void => {
      bot.use(async (ctx) => {
        isOpen = true;
        await self.sleep(lab.leaseMs / 2);
        ctx.onSteer((payload) => heard.push(payload));
        while (heard.length < 4 && !ctx.signal.aborted) await self.sleep(lab.leaseMs / 60);
      });
    };
    const a = await lab.bot(set);
    const b = await lab.bot(set);
    claimEqual(await b.bot.steer('k', 'nobody'), false, 'whether a turn was running, when none was');
    await a.provider.receive({ chat: 'k', id: '1', text: 'x' });
    await lab.until(lab.leaseMs / 4, () => isOpen, 'the run');

    const answers = [await b.bot.steer('k', { n: 1 }), await a.bot.steer('k', [2]), await b.bot.steer('k', 'three')];
    await lab.until(2 * lab.leaseMs, () => heard.length === 3, 'three payloads');
    answers.push(await b.bot.steer('k', null));
    await lab.until(reachMs(lab), () => lab.ends.length === 1, 'the end');

    claimEqual(answers, [true, true, true, true], 'whether a turn was running');
    claimEqual(heard, [{ n: 1 }, [2], 'three', null], 'what was heard');
    const refused = await b.bot.steer('k', () => {}).catch((error: { code?: string }) => error.code);
    claim(refused === 'bad-input', `a function was answered ${String(refused)}`);
  },

  'a handler that reports progress runs for longer than maxTurnMs, up to its bound': async (lab) => {
    const maxTurnMs = lab.leaseMs / 4;
    const notes: string[] = [];
    const set = (bot: Bot, self: LabBot): void => {
      bot.use(async (ctx) => {
        const steps = ctx.message.text === 'long' ? 6 : 1_000;
        for (let step = 0; step < steps && !ctx.signal.aborted; step++) {
          await self.sleep(maxTurnMs / 2);
          ctx.progress(`step ${step}`);
        }
        if (!ctx.signal.aborted) await ctx.reply('done');
      });
    };
    const c = await lab.bot(set, { maxTurnMs, maxProgressMs: 6 * maxTurnMs });
    c.bot.on('progress', ({ note }) => notes.push(note));
    await c.provider.receive({ chat: 'k', id: '1', text: 'long' });
    await lab.until(6 * maxTurnMs, () => lab.sent.length === 1, 'the reply');
    claimEqual(notes, ['step 0', 'step 1', 'step 2', 'step 3', 'step 4', 'step 5'], 'notes');

    await c.provider.receive({ chat: 'j', id: '1', text: 'endless' });
    await lab.until(12 * maxTurnMs, () => lab.errors.length === 1, 'the limit');
    claimEqual((lab.errors[0] as { code?: string }).code, 'turn-limit', 'the error');
  },

  'what a listener of hints throws is told to onError and fails no message; too many hints for nobody are told of once':
    async (lab) => {
      let isOpen = false;
      const heard: unknown[] = [];
      const set = (bot: Bot, self: LabBot): void => {
        bot.use(async (ctx) => {
          while (!isOpen) await self.sleep(lab.leaseMs / 120);
          ctx.onSteer((payload) => {
            heard.push(payload);
            if (payload === 0) throw new Error('no such hint');
          });
          ctx.onSteer(async () => Promise.reject(new Error('nor such one')));
          await ctx.reply('done');
        });
      };
      const a = await lab.bot(set);
      await a.provider.receive({ chat: 'k', id: '1', text: 'x' });
      await lab.sleep(lab.leaseMs / 20);

      for (let n = 0; n < 270; n++) {
        // False: too many are on their way, and not fetched yet.
        while (!(await a.bot.steer('k', n))) await lab.sleep(lab.leaseMs / 60);
      }
      await lab.until(lab.leaseMs, () => lab.errors.length === 1, 'word of the hints that were dropped');
      isOpen = true;
      await lab.until(lab.leaseMs, () => lab.ends.length === 1, 'its end');

      claimEqual([heard.length, heard[0], heard.at(-1)], [256, 0, 255], 'hints that were heard');
      claimEqual(lab.endsOf('k'), ['1 handled'], 'its end');
      const [full, ...thrown] = lab.errors.map((error) => (error as Error).message);
      claim(full?.includes('more than 256 came') === true, `told first: ${full}`);
      claim(thrown.includes('no such hint'), `told of what was thrown: ${thrown.join()}`);
    },
};
