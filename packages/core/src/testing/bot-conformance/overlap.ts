import type { Bot } from '../../bot/Bot.js';
import type { BotOptions } from '../../bot/options.js';
import { claim, claimEqual } from '../suite/claims.js';
import type { BotLab, LabBot } from './BotLab.js';

/** One run of the handlers: the texts of its messages, and where it ran. */
interface Ran {
  readonly texts: readonly string[];
  readonly attempt: number;
  readonly by: LabBot;
  reason?: unknown;
}

/** Two replicas whose handlers note what they run, run `work`, and reply with the texts. */
async function pair(
  lab: BotLab,
  overlap: BotOptions['overlap'],
  work: (ran: Ran, self: LabBot, signal: AbortSignal) => unknown,
  options: Partial<BotOptions> = {},
): Promise<{ a: LabBot; b: LabBot; ran: Ran[] }> {
  const ran: Ran[] = [];
  const set = (bot: Bot, self: LabBot): void => {
    bot.use(async (ctx) => {
      const run: Ran = { texts: ctx.messages.map(({ text }) => text), attempt: ctx.attempt, by: self };
      claimEqual(ctx.message, ctx.messages.at(-1), 'ctx.message');
      ran.push(run);
      ctx.signal.addEventListener('abort', () => {
        run.reason = ctx.signal.reason;
      });
      await work(run, self, ctx.signal);
      ctx.state.seen = [...((ctx.state.seen as string[] | undefined) ?? []), ...run.texts];
      await ctx.reply(`${run.texts.join('+')}; seen ${(ctx.state.seen as string[]).join()}`);
    });
  };
  const more: Partial<BotOptions> = { ...(overlap === undefined ? {} : { overlap }), ...options };
  return { a: await lab.bot(set, more), b: await lab.bot(set, more), ran };
}

const textsOf = (ran: readonly Ran[]): string[] => ran.map(({ texts }) => texts.join('+'));

/** Ends early when the handler is asked to. */
const untilAborted = (self: LabBot, ms: number, signal: AbortSignal): Promise<unknown> =>
  Promise.race([self.sleep(ms), new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve()))]);

export const overlap: Record<string, (lab: BotLab) => Promise<void>> = {
  'collect: what comes within the quiet time is handled in one run, in order, wherever it arrived': async (lab) => {
    const quietMs = lab.leaseMs / 2;
    const { a, b, ran } = await pair(lab, { mode: 'collect', quietMs, maxWaitMs: 20 * quietMs }, () => {});

    await a.provider.receive({ chat: 'k', id: '1', text: 'm1' });
    await b.provider.receive({ chat: 'k', id: '2', text: 'm2' });
    await lab.sleep(quietMs / 2);
    await a.provider.receive({ chat: 'k', id: '3', text: 'm3' });
    claimEqual(ran.length, 0, 'runs before it was quiet');
    await lab.until(4 * quietMs, () => lab.ends.length === 3, 'three ends');

    claimEqual(textsOf(ran), ['m1+m2+m3'], 'runs');
    claimEqual(lab.endsOf('k'), ['1 merged by 3', '2 merged by 3', '3 handled'], 'ends');
    claimEqual(await a.provider.receive({ chat: 'k', id: '2', text: 'm2' }), 'duplicate', 'a merged one, redelivered');
    await b.provider.receive({ chat: 'k', id: '4', text: 'm4' });
    await lab.until(4 * quietMs, () => lab.ends.length === 4, 'the next end');
    claimEqual(lab.textsTo('k'), ['m1+m2+m3; seen m1,m2,m3', 'm4; seen m1,m2,m3,m4'], 'replies');
  },

  'collect: a chat that is never quiet is handled after its longest wait': async (lab) => {
    const quietMs = lab.leaseMs / 4;
    const { a, ran } = await pair(lab, { mode: 'collect', quietMs, maxWaitMs: 3 * quietMs }, () => {});
    const startedMs = lab.mesh.clock.monotonicMs();

    let count = 0;
    while (ran.length === 0 && count < 40) {
      count++;
      await a.provider.receive({ chat: 'k', id: `${count}`, text: `m${count}` });
      await lab.sleep(quietMs / 2);
    }

    const tookMs = lab.mesh.clock.monotonicMs() - startedMs;
    claim(ran.length > 0 && tookMs < 6 * quietMs, `no run after ${Math.round(tookMs / quietMs)} quiet times`);
    claim((ran[0]?.texts.length ?? 0) > 2, `the run had ${ran[0]?.texts.length} messages`);
    await lab.until(8 * quietMs, () => lab.ends.length === count, 'the ends of all');
    claimEqual(
      ran.flatMap(({ texts }) => texts),
      Array.from({ length: count }, (_, n) => `m${n + 1}`),
      'all messages',
    );
  },

  'collect: only messages that follow each other without another kind between are handled together': async (lab) => {
    const overlapping = { kinds: { note: { mode: 'collect', quietMs: lab.leaseMs / 4 } } } as const;
    const { a, b, ran } = await pair(lab, overlapping, () => {});

    const kinds = ['note', 'note', 'text', 'note', 'note'];
    for (const [n, kind] of kinds.entries()) {
      await (n % 2 === 0 ? a : b).provider.receive({ chat: 'k', id: `${n}`, text: `m${n}`, kind });
    }
    await lab.until(4 * lab.leaseMs, () => lab.ends.length === kinds.length, 'all ends');

    claimEqual(textsOf(ran), ['m0+m1', 'm2', 'm3+m4'], 'runs');
  },

  'collect: a holder that dies loses nothing of what it merged': async (lab) => {
    let isHanging = true;
    const { a, b, ran } = await pair(lab, { mode: 'collect', quietMs: lab.leaseMs / 10 }, (_ran, self) =>
      isHanging ? self.sleep(1e9) : undefined,
    );
    await a.provider.receive({ chat: 'k', id: '1', text: 'm1' });
    await b.provider.receive({ chat: 'k', id: '2', text: 'm2' });
    await a.provider.receive({ chat: 'k', id: '3', text: 'm3' });
    await lab.until(lab.leaseMs, () => ran.length === 1, 'the first run');

    isHanging = false;
    a.crash();
    await lab.until(lab.takenOverMs + lab.leaseMs, () => lab.ends.length === 3, 'three ends');

    claimEqual(textsOf(ran), ['m1+m2+m3', 'm1+m2+m3'], 'runs');
    claimEqual(lab.endsOf('k'), ['1 merged by 3', '2 merged by 3', '3 handled'], 'ends');
    claimEqual(lab.sent.length, 1, 'replies');
  },

  'latest: the newest of those that wait is handled, the older ones end for it without a run': async (lab) => {
    const { a, b, ran } = await pair(lab, 'latest', (_ran, self) => self.sleep(lab.leaseMs / 3));
    await a.provider.receive({ chat: 'k', id: '1', text: 'm1' });
    await lab.until(lab.leaseMs / 4, () => ran.length === 1, 'the first run');

    await b.provider.receive({ chat: 'k', id: '2', text: 'm2' });
    await a.provider.receive({ chat: 'k', id: '3', text: 'm3' });
    await b.provider.receive({ chat: 'k', id: '4', text: 'm4' });
    await lab.until(2 * lab.leaseMs, () => lab.ends.length === 4, 'four ends');

    claimEqual(textsOf(ran), ['m1', 'm4'], 'runs');
    claimEqual(lab.endsOf('k').toSorted(), ['1 handled', '2 cancelled by 4', '3 cancelled by 4', '4 handled'], 'ends');
    claimEqual(
      await b.provider.receive({ chat: 'k', id: '3', text: 'm3' }),
      'duplicate',
      'a cancelled one, redelivered',
    );
  },

  'interrupt: a newer message, wherever it arrives, ends the run, and the same turn runs again with both': async (
    lab,
  ) => {
    const { a, b, ran } = await pair(lab, 'interrupt', (run, self, signal) =>
      run.texts.length === 1 ? untilAborted(self, 100 * lab.leaseMs, signal) : undefined,
    );
    await a.provider.receive({ chat: 'k', id: '1', text: 'm1' });
    await lab.until(lab.leaseMs / 4, () => ran.length === 1, 'the first run');

    await b.provider.receive({ chat: 'k', id: '2', text: 'm2' });
    await lab.until(1_000 + 4 * lab.mesh.slackMs, () => lab.ends.length === 2, 'both ends');

    claimEqual(textsOf(ran), ['m1', 'm1+m2'], 'runs');
    claimEqual(
      ran.map(({ attempt, by }) => [attempt, by === a]),
      [
        [1, true],
        [1, true],
      ],
      'attempts, and whether on a',
    );
    claimEqual((ran[0]?.reason as { code?: string } | undefined)?.code, 'superseded-by-newer', 'what the signal said');
    claimEqual(lab.endsOf('k'), ['1 merged by 2', '2 handled'], 'ends');
    claimEqual(lab.textsTo('k'), ['m1+m2; seen m1,m2'], 'replies: the state of the first run is not kept');
  },

  'interrupt: what is still being collected is handled at once, together with the message that interrupts': async (
    lab,
  ) => {
    const collect = { mode: 'collect', quietMs: 20 * lab.leaseMs, maxWaitMs: 40 * lab.leaseMs } as const;
    const { a, b, ran } = await pair(lab, { default: collect, kinds: { now: 'interrupt' } }, () => {});
    await a.provider.receive({ chat: 'k', id: '1', text: 'm1' });
    await a.provider.receive({ chat: 'k', id: '2', text: 'm2' });
    await lab.sleep(lab.leaseMs / 12);

    await b.provider.receive({ chat: 'k', id: '3', text: 'go', kind: 'now' });
    await lab.until(1_000 + 4 * lab.mesh.slackMs, () => lab.ends.length === 3, 'three ends');

    claimEqual(textsOf(ran), ['m1+m2+go'], 'runs');
    claimEqual(lab.endsOf('k'), ['1 merged by 3', '2 merged by 3', '3 handled'], 'ends');
  },

  'interrupt: a run that ignores the signal is cut off after a grace, and sends nothing any more': async (lab) => {
    const { a, b, ran } = await pair(
      lab,
      'interrupt',
      (run, self) => (run.texts.length === 1 ? self.sleep(lab.leaseMs) : undefined),
      { graceMs: lab.leaseMs / 10 },
    );
    await a.provider.receive({ chat: 'k', id: '1', text: 'm1' });
    await lab.until(lab.leaseMs / 4, () => ran.length === 1, 'the first run');

    await b.provider.receive({ chat: 'k', id: '2', text: 'm2' });
    await lab.until(lab.leaseMs / 2, () => lab.ends.length === 2, 'both ends');
    await lab.sleep(lab.leaseMs);

    claimEqual(textsOf(ran), ['m1', 'm1+m2'], 'runs');
    claimEqual(lab.textsTo('k'), ['m1+m2; seen m1,m2'], 'replies');
  },

  'interrupt: what no longer waits behind a turn is not run twice, however fast it comes': async (lab) => {
    const { a, b, ran } = await pair(lab, 'interrupt', (_run, self, signal) =>
      untilAborted(self, lab.leaseMs / 12, signal),
    );

    for (let n = 0; n < 12; n++) {
      await (n % 2 === 0 ? a : b).provider.receive({ chat: 'k', id: `${n}`, text: `m${n}` });
      await lab.sleep(lab.leaseMs / 40);
    }
    await lab.until(6 * lab.leaseMs, () => lab.ends.length >= 12, 'all ends');
    await lab.sleep(lab.leaseMs / 2);

    claimEqual(lab.ends.length, 12, 'ends');
    const replied = lab.textsTo('k').flatMap((text) => text.split(';')[0]!.split('+'));
    claimEqual(
      replied,
      Array.from({ length: 12 }, (_, n) => `m${n}`),
      'messages in the replies',
    );
    claim(ran.length >= lab.sent.length, 'a reply without a run');
  },

  'reject: a message that finds its chat busy ends at once, is answered, and counts as taken in': async (lab) => {
    const { a, b, ran } = await pair(lab, 'reject', (_ran, self) => self.sleep(lab.leaseMs / 2), {
      onRejected: (ctx) => ctx.reply(`busy: ${ctx.message.text}`),
    });
    await a.provider.receive({ chat: 'k', id: '1', text: 'm1' });
    await lab.until(lab.leaseMs / 4, () => ran.length === 1, 'the first run');

    claimEqual(await b.provider.receive({ chat: 'k', id: '2', text: 'm2' }), 'accepted', 'the second message');
    await lab.until(lab.leaseMs / 4, () => lab.sent.length === 1, 'the answer');
    claimEqual(await a.provider.receive({ chat: 'k', id: '2', text: 'm2' }), 'duplicate', 'its redelivery');
    await lab.until(lab.leaseMs, () => lab.ends.length === 2, 'both ends');
    await b.provider.receive({ chat: 'k', id: '3', text: 'm3' });
    await lab.until(lab.leaseMs, () => lab.ends.length === 3, 'the third end');

    claimEqual(lab.endsOf('k'), ['2 rejected', '1 handled', '3 handled'], 'ends');
    claimEqual(textsOf(ran), ['m1', 'm3'], 'runs');
    claimEqual(lab.textsTo('k'), ['busy: m2', 'm1; seen m1', 'm3; seen m1,m3'], 'replies');
  },
};
