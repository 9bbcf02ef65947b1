import type { Bot as Replica } from '@botmesh/core';
import { ConfigError } from '@botmesh/core';
import { type BindingOptions, type Conflict, checkBinding, type Keys } from '@botmesh/core/spi';
import type { Context } from 'telegraf';

export type { Replica };

/** Takes updates by webhook instead of polling. */
export interface WebhookOptions {
  /** The `secret_token` that you gave to `setWebhook`. Calls that do not show it are refused with 401. */
  secretToken: string;
  /** The only path that is answered. Default: every path. */
  path?: string;
}

export interface ReplicateOptions extends BindingOptions {
  /**
   * What must be serial about an update, a key, several, or undefined for
   * nothing. It sees the update before any middleware does, so `ctx` has no session and no flavours. Default: the chat, else
   * the person. Must give the same for the same update, in every replica.
   */
  keys?: (ctx: Context) => Keys;
  /** The update kinds to ask Telegram for, as of `bot.launch`. Default: what Telegram gives by itself. */
  allowedUpdates?: readonly string[];
  /**
   * How long a poll waits for updates, in seconds. Keep it below two thirds of the lease, so that even the poll of a frozen
   * replica is over before its successor begins. Default 8, for the usual lease of 12 s.
   */
  pollSeconds?: number;
  /** Hears when somebody outside the mesh polls with the same token, or has set a webhook. It is logged, too. */
  onConflict?: (conflict: Conflict) => void;
  /** Take updates by webhook, and do not poll. */
  webhook?: WebhookOptions;
}

const NAMES = { keys: true, allowedUpdates: true, pollSeconds: true, onConflict: true, webhook: true } as const;

/** @throws ConfigError naming the option, what was found and what is expected */
export function checkOptions(bot: unknown, options: unknown): void {
  const { handleUpdate, middleware, telegram } = (bot ?? {}) as Partial<
    Record<'handleUpdate' | 'middleware' | 'telegram', unknown>
  >;
  if (typeof handleUpdate !== 'function' || typeof middleware !== 'function' || typeof telegram !== 'object') {
    throw new ConfigError(
      'replicate(): no Telegraf bot. Pass replicate(bot, { coordinator }), with bot of new Telegraf(token).',
    );
  }
  checkBinding('replicate()', options, NAMES);
  const { keys, pollSeconds = 8, webhook } = options as ReplicateOptions;
  if (keys !== undefined && typeof keys !== 'function') {
    throw new ConfigError(`replicate(): keys is ${typeof keys}. Pass a function of ctx.`);
  }
  if (!(typeof pollSeconds === 'number' && pollSeconds >= 0 && pollSeconds <= 50)) {
    throw new ConfigError('replicate(): pollSeconds must be a number from 0 to 50.');
  }
  if (webhook === undefined) return;
  if (typeof webhook.secretToken !== 'string' || webhook.secretToken === '') {
    throw new ConfigError(
      'replicate(): webhook has no secretToken, so anybody who finds the address could write as anybody. Pass the secret_token that you gave to setWebhook.',
    );
  }
}
