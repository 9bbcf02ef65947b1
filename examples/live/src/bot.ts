import { setTimeout as sleep } from 'node:timers/promises';
import { type Bot, type Context, flow } from '@botmesh/core';

const LONGEST_QUOTE = 60;

export interface Memory {
  /** How many messages of this chat were answered. */
  count?: number;
}

type Ctx = Context<Memory>;

/** What the bot says: the same on every replica. */
export function teach(bot: Bot<Memory>): void {
  bot.use(async (ctx, next) => {
    ctx.state.count = (ctx.state.count ?? 0) + 1;
    await next();
  });
  bot.when(/^(hi|hello|hey)\b/i, (ctx) => answer(ctx, 'Hello!'));
  bot.when(/^slow(?: (\d{1,3}))?$/i, async (ctx) => {
    const seconds = Number(ctx.match[1] ?? 2);
    // Ends early when the turn is lost.
    await sleep(seconds * 1000, undefined, { signal: ctx.signal });
    await answer(ctx, `That took ${seconds} s.`);
  });
  bot.use(
    flow('signup')
      .ask((ctx) => signed(ctx, 'What is your name?'), 'name')
      .say((ctx, c) => signed(ctx, `Nice to meet you, ${quote(c.state.name)}!`)),
  );
  bot.use((ctx) => answer(ctx, ctx.message.text === '' ? 'You said nothing.' : `You said: ${quote(ctx.message.text)}`));
}

function answer(ctx: Ctx, text: string): Promise<void> {
  return ctx.reply(signed(ctx, text));
}

function signed(ctx: Ctx, text: string): string {
  const again = ctx.attempt > 1 ? ', taken over' : '';
  return `${text} (replica ${ctx.replicaId}, message ${ctx.state.count} of this chat${again})`;
}

function quote(text: string): string {
  if (text.length <= LONGEST_QUOTE) return text;
  return `${text.slice(0, LONGEST_QUOTE)}… (${text.length} characters)`;
}
