import { BadInputError, jsonWebhook, type Lead, longPolling, type PollFault, type Provider } from '@botmesh/core/spi';
import { type Answering, answering } from './answer.js';
import { ApiError, type Call, client, deliveryErrorOf } from './api.js';
import { readChatName } from './chat-name.js';
import { type Downloaded, type DownloadOptions, download } from './download.js';
import { checkOptions, type TelegramOptions } from './options.js';
import { messageOf, type Update } from './receive.js';
import { type Sent, sender } from './send.js';

/** The provider, and what can be done at Telegram besides replying. */
export interface Telegram extends Provider {
  /**
   * Fetches a file that a message names, by its `file_id`.
   *
   * @throws TelegramError, RateLimitedError, DeliveryUnknownError as a reply does; `too-big` above `maxBytes`
   */
  download(fileId: string, options?: DownloadOptions): Promise<Downloaded>;
  /**
   * Any method of the Bot API, at once: not paced, not on record and not repeated, as replies are.
   *
   * @throws as `download`
   */
  call(
    method: string,
    payload?: Readonly<Record<string, unknown>>,
    options?: { signal?: AbortSignal },
  ): Promise<unknown>;
}

/**
 * Telegram, by long polling on one replica or by webhook on all. An update is confirmed only when it is taken in. Replies
 * may have what `TelegramReply` has.
 *
 * The Bot API takes no idempotency key: a reply whose call got no answer may have been sent. It is counted as unknown, and
 * `onUnknownSend` of the Bot decides.
 *
 * @throws ConfigError naming the option that cannot work
 */
export function telegram(options: TelegramOptions): Telegram {
  checkOptions(options);
  const { token, timeoutMs = 20_000, apiRoot = 'https://api.telegram.org' } = options;
  const call = client(token, apiRoot);
  const account = token.split(':')[0] ?? '';
  const files = { call, root: `${apiRoot}/file/bot${token}`, timeoutMs };
  return {
    ...receiving(options, call, account, timeoutMs),
    send: sender(call, { timeoutMs, onSent: telling(options) }),
    // Telegram limits a group, not each of its topics.
    placeOf: (chat) => String(readChatName(chat)?.id ?? chat),
    download: (fileId, how = {}) => download(files, fileId, how),
    call: async (method, payload = {}, { signal } = {}) => {
      try {
        return await call(method, payload, { signal, timeoutMs });
      } catch (error) {
        throw deliveryErrorOf(error);
      }
    },
  };
}

function receiving(options: TelegramOptions, call: Call, account: string, timeoutMs: number): Omit<Provider, 'send'> {
  const { webhook } = options;
  const received = webhook === undefined ? polled(options, call, account) : pushed(webhook, account);
  const { answer, answerCallbacks = true, log = console.warn } = options;
  if (answer === undefined && !answerCallbacks) return received;
  const setup: Answering = { call, timeoutMs, answer, answerCallbacks, log };
  const { start, webhook: receive } = received;
  return {
    ...received,
    start: (intake, lead) => start(answering(intake, setup), lead),
    ...(receive === undefined ? {} : { webhook: (request, intake) => receive(request, answering(intake, setup)) }),
  };
}

function pushed(
  { secretToken: secret, path }: NonNullable<TelegramOptions['webhook']>,
  account: string,
): Omit<Provider, 'send'> {
  const read = (update: object) => messageOf(update as Update, account);
  const header = 'x-telegram-bot-api-secret-token';
  return { name: 'telegram', start() {}, stop() {}, webhook: jsonWebhook({ header, secret, path, read }) };
}

/** A poll that is not over so long after it should be has lost its connection. */
const POLL_SLACK_SECONDS = 15;

function polled(
  { allowedUpdates = [], pollSeconds = 8, onConflict, log }: TelegramOptions,
  call: Call,
  account: string,
): Omit<Provider, 'send'> {
  let leading: Lead | undefined;
  const polling = longPolling<Update>({
    name: 'telegram',
    // While a webhook is set, nobody may poll.
    connect: (signal) => call('deleteWebhook', {}, { signal }),
    poll: (offset, signal) => {
      const asked = { offset, limit: 100, timeout: pollSeconds, allowed_updates: allowedUpdates };
      return call('getUpdates', asked, { signal }).catch((error: unknown) => {
        // Another replica may have the next token already.
        if (error instanceof ApiError && error.status === 401) leading?.giveUp?.(deliveryErrorOf(error));
        throw error;
      }) as Promise<Update[]>;
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
  return {
    ...polling,
    start: (intake, lead) => {
      leading = lead;
      return polling.start(intake, lead);
    },
  };
}

function judge(error: unknown): PollFault {
  const what = error instanceof Error ? error.message : 'Telegram: getUpdates failed';
  if (!(error instanceof ApiError)) return { what };
  return { what, isConflict: error.status === 409, retryAfterMs: error.retryAfterMs };
}

/** The message is sent, so an `onSent` that throws must not make it be sent again. */
function telling({ onSent = () => {}, log = console.warn }: TelegramOptions): (sent: Sent) => void {
  return (sent) => {
    try {
      onSent(sent);
    } catch (error) {
      log(`telegram: onSent threw (${error instanceof Error ? error.name : typeof error}).`);
    }
  };
}
