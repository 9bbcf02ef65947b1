import { inHand } from '@botmesh/core/spi';
import type { Context, Telegraf, Telegram } from 'telegraf';

const guarded = new WeakSet<object>();

/** Whatever an update does is refused once its turn is lost, and cut off when that happens meanwhile. Idempotent. */
export function guardSends(telegram: Telegram): void {
  if (guarded.has(telegram)) return;
  guarded.add(telegram);
  const callApi = telegram.callApi.bind(telegram) as (...args: unknown[]) => Promise<unknown>;
  const guard = async (method: string, payload: unknown, options: { signal?: AbortSignal } = {}): Promise<unknown> => {
    const hand = inHand();
    if (hand === undefined) return callApi(method, payload, options);
    hand.assertHeld();
    const signal = options.signal === undefined ? hand.signal : AbortSignal.any([hand.signal, options.signal]);
    return callApi(method, payload, { ...options, signal });
  };
  telegram.callApi = guard as Telegram['callApi'];
}

/** The same for every update of a bot, before its first middleware. */
export function guardBot<C extends Context>(bot: Telegraf<C>): void {
  guardSends(bot.telegram);
  const middleware = bot.middleware.bind(bot);
  bot.middleware = () => {
    const run = middleware();
    return async (ctx, next) => {
      guardSends(ctx.telegram);
      try {
        await run(ctx, next);
      } catch (error) {
        // Another replica sees to it: it is nothing for bot.catch, and no reason to end this process with 1.
        if (isHeld()) throw error;
      }
    };
  };
}

function isHeld(): boolean {
  try {
    inHand()?.assertHeld();
    return true;
  } catch {
    return false;
  }
}
