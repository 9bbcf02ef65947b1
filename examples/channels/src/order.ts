import type { Bot } from '@botmesh/core';

export interface Orders {
  /** How many this chat has made. */
  count?: number;
}

const SIZES = [
  { id: 'large', title: 'Large' },
  { id: 'small', title: 'Small' },
];

/** Takes orders, on any platform: whoever presses a button says the same as who writes it. */
export function takeOrders(bot: Bot<Orders>): void {
  // Edits, reactions and whatever else a platform tells are no orders.
  bot.use(async ({ message }, next) => {
    if (['message', 'mention', 'callback'].includes(message.kind ?? 'message')) await next();
  });
  bot.when('order', (ctx) => ctx.reply({ text: 'Large or small?', buttons: SIZES }));
  for (const { id, title } of SIZES) {
    bot.when(id, async (ctx) => {
      ctx.state.count = (ctx.state.count ?? 0) + 1;
      await ctx.reply(`${title} it is. Orders: ${ctx.state.count}.`);
    });
  }
}
