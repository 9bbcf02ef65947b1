import { ConfigError, type Conflict, checkOptionNames } from '@botmesh/core/spi';
import type { Answer } from './answer.js';
import type { Sent } from './send.js';

export interface TelegramOptions {
  /** From BotFather. */
  token: string;
  /** Take updates by webhook, and do not poll: the `secret_token` that you gave to `setWebhook`, and the path to answer. */
  webhook?: { secretToken: string; path?: string };
  /** The kinds of updates to poll for. Default: what Telegram gives by itself. */
  allowedUpdates?: readonly string[];
  /** How long a poll waits, in seconds. Keep it below two thirds of the lease. Default 8. */
  pollSeconds?: number;
  /**
   * Whether each `callback` query is answered when it is taken in, so that its button stops waiting. Default true. Pass false to
   * answer with a notice, by a reply with `answer`.
   */
  answerCallbacks?: boolean;
  /** Says what a checkout, a shipping, an inline or a callback query is answered at once. See `Answer`. Default: nothing. */
  answer?: Answer;
  /** How long the Bot API may take before a reply counts as unknown, in milliseconds. Default 20,000. */
  timeoutMs?: number;
  /** Hears the number of each message that was sent, on the replica that sent it: to edit or remove it later. */
  onSent?: (sent: Sent) => void;
  /** Hears when somebody outside the mesh polls with the same token, or has set a webhook. It is logged, too. */
  onConflict?: (conflict: Conflict) => void;
  /** A Bot API server of your own. Default `https://api.telegram.org`. */
  apiRoot?: string;
  /** Where trouble with polls and answers, and an `onSent` that throws, is told. Default `console.warn`. */
  log?: (line: string) => void;
}

const NAMES: { readonly [Name in keyof Required<TelegramOptions>]: true } = {
  token: true,
  webhook: true,
  allowedUpdates: true,
  pollSeconds: true,
  answerCallbacks: true,
  answer: true,
  timeoutMs: true,
  onSent: true,
  onConflict: true,
  apiRoot: true,
  log: true,
};

/** @throws ConfigError naming the option that cannot work */
export function checkOptions(options: TelegramOptions): void {
  checkOptionNames('telegram()', options, NAMES);
  const { token, webhook, pollSeconds = 8, timeoutMs = 20_000 } = options;
  if (typeof token !== 'string' || !/^\d+:.+$/.test(token)) {
    throw new ConfigError('telegram(): no token. Pass { token }, as BotFather gave it: a number, a colon and a text.');
  }
  if (!(typeof pollSeconds === 'number' && pollSeconds >= 0 && pollSeconds <= 50)) {
    throw new ConfigError('telegram(): pollSeconds must be a number from 0 to 50.');
  }
  if (options.answer !== undefined && typeof options.answer !== 'function') {
    throw new ConfigError('telegram(): answer is no function.');
  }
  if (!(typeof timeoutMs === 'number' && timeoutMs > 0 && timeoutMs < 2 ** 31)) {
    throw new ConfigError('telegram(): timeoutMs must be a number of milliseconds above 0.');
  }
  if (webhook !== undefined && (typeof webhook.secretToken !== 'string' || webhook.secretToken === '')) {
    throw new ConfigError(
      'telegram(): webhook has no secretToken, so anybody who finds the address could write as anybody. Pass the secret_token that you gave to setWebhook.',
    );
  }
}
