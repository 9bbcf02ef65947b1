import {
  BadInputError,
  ConfigError,
  type Conflict,
  checkOptionNames,
  jsonWebhook,
  longPolling,
  type PollFault,
  type Provider,
} from '@botmesh/core/spi';
import { ApiError, client } from './api.js';
import { messageOf, type Update } from './receive.js';
import { sender } from './send.js';

export interface TelegramOptions {
  /** From BotFather. */
  token: string;
  /** Take updates by webhook, and do not poll: the `secret_token` that you gave to `setWebhook`, and the path to answer. */
  webhook?: { secretToken: string; path?: string };
  /** The kinds of updates to poll for. Default: what Telegram gives by itself. */
  allowedUpdates?: readonly string[];
  /** How long a poll waits, in seconds. Keep it below two thirds of the lease. Default 8. */
  pollSeconds?: number;
  /** Hears when somebody outside the mesh polls with the same token, or has set a webhook. It is logged, too. */
  onConflict?: (conflict: Conflict) => void;
  /** A Bot API server of your own. Default `https://api.telegram.org`. */
  apiRoot?: string;
  /** Where trouble with polls is told. Default `console.warn`. */
  log?: (line: string) => void;
}

const NAMES: { readonly [Name in keyof Required<TelegramOptions>]: true } = {
  token: true,
  webhook: true,
  allowedUpdates: true,
  pollSeconds: true,
  onConflict: true,
  apiRoot: true,
  log: true,
};

/**
 * Telegram, by long polling on one replica or by webhook on all. An update is confirmed only when it is taken in. Replies
 * may have what `TelegramReply` has.
 *
 * @throws ConfigError for options that cannot work
 */
export function telegram(options: TelegramOptions): Provider {
  checkOptions(options);
  const { token, webhook, apiRoot = 'https://api.telegram.org' } = options;
  const account = token.split(':')[0] ?? '';
  const call = client(token, apiRoot);
  const read = (update: object) => messageOf(update as Update, account);
  const send = sender(call);
  if (webhook === undefined) return { ...polled(options, call, account), send };
  const { secretToken: secret, path } = webhook;
  const header = 'x-telegram-bot-api-secret-token';
  return { name: 'telegram', start() {}, stop() {}, webhook: jsonWebhook({ header, secret, path, read }), send };
}

/** A poll that is not over so long after it should be has lost its connection. */
const POLL_SLACK_SECONDS = 15;

function polled(
  { allowedUpdates = [], pollSeconds = 8, onConflict, log }: TelegramOptions,
  call: ReturnType<typeof client>,
  account: string,
): Omit<Provider, 'send'> {
  return longPolling<Update>({
    name: 'telegram',
    // While a webhook is set, nobody may poll.
    connect: (signal) => call('deleteWebhook', {}, signal),
    poll: (offset, signal) => {
      const asked = { offset, limit: 100, timeout: pollSeconds, allowed_updates: allowedUpdates };
      return call('getUpdates', asked, signal) as Promise<Update[]>;
    },
    confirm: (offset) => call('getUpdates', { offset, limit: 1, timeout: 0 }),
    longestPollMs: (pollSeconds + POLL_SLACK_SECONDS) * 1000,
    numberOf: ({ update_id }) => update_id,
    read: (update) => {
      const message = messageOf(update, account);
      if (typeof message === 'string') throw new BadInputError(message);
      return message;
    },
    judge,
    onConflict,
    log,
  });
}

function judge(error: unknown): PollFault {
  const what = error instanceof Error ? error.message : 'Telegram: getUpdates failed';
  if (!(error instanceof ApiError)) return { what };
  return { what, isConflict: error.status === 409, retryAfterMs: error.retryAfterMs };
}

function checkOptions(options: TelegramOptions): void {
  checkOptionNames('telegram()', options, NAMES);
  const { token, webhook, pollSeconds = 8 } = options;
  if (typeof token !== 'string' || !/^\d+:.+$/.test(token)) {
    throw new ConfigError('telegram(): no token. Pass { token }, as BotFather gave it: a number, a colon and a text.');
  }
  if (!(typeof pollSeconds === 'number' && pollSeconds >= 0 && pollSeconds <= 50)) {
    throw new ConfigError('telegram(): pollSeconds must be a number from 0 to 50.');
  }
  if (webhook !== undefined && (typeof webhook.secretToken !== 'string' || webhook.secretToken === '')) {
    throw new ConfigError(
      'telegram(): webhook has no secretToken, so anybody who finds the address could write as anybody. Pass the secret_token that you gave to setWebhook.',
    );
  }
}
