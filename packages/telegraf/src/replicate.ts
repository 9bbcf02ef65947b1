import {
  type Arrival,
  bind,
  type Clock,
  checkPeer,
  inHand,
  inTime,
  jsonWebhook,
  longPolling,
  messageOf,
  orderOf,
  type PollFault,
  type Provider,
  systemClock,
  versionOf,
} from '@botmesh/core/spi';
import { Context, type Telegraf } from 'telegraf';
import type { Update } from 'telegraf/types';
import { guardBot } from './guard-sends.js';
import { checkOptions, type Replica, type ReplicateOptions } from './options.js';

const WHERE = 'replicate()';
/** A poll that is not over so long after it should be has lost its connection: the framework's client waits for ever. */
const POLL_SLACK_SECONDS = 15;
/** The same of a start by webhook, which must know the bot's name before it takes anything in. */
const LONGEST_START_MS = 15_000;

/**
 * Runs a Telegraf bot as one of many replicas: instead of `bot.launch()` or `bot.webhookCallback()`. Each update is stored
 * in the mesh before Telegram hears that it arrived, and handled by `bot.handleUpdate` when it is the turn of its keys, one
 * at a time and in order, on whichever replica.
 *
 * An update whose handlers throw is tried again in its place, and kept aside after the coordinator's `maxAttempts`; one that
 * `bot.catch` takes care of is handled. What handlers sent before they failed is sent again. Telegraf's `handlerTimeout`
 * counts as a failure.
 *
 * Gives a `Bot` of `@botmesh/core`: `start()`, `stop()`, `handleSignals()`, `webhook`, `parked()`, `replay()`.
 *
 * @throws ConfigError for options that cannot work, another version of Telegraf, and a bot that is bound already
 */
export function replicate<C extends Context>(bot: Telegraf<C>, options: ReplicateOptions): Replica {
  checkOptions(bot, options);
  checkPeer('telegraf', versionOf('telegraf', import.meta.url), { from: [4, 16], lastMajor: 4 });
  const { keys, webhook } = options;
  const account = bot.telegram.token.split(':')[0] ?? '';
  const read = (update: Update) => messageOf(arrival(bot, account, update, keys));
  const replica = bind({
    framework: 'Telegraf',
    bot,
    options,
    provider: webhook === undefined ? polled(bot, options, read) : posted(bot, webhook, read, options.clock),
    account: () => account,
    handle: (update) => handle(bot, update as Update),
  });
  guardBot(bot);
  return replica;
}

type Read = (update: Update) => ReturnType<typeof messageOf>;

/** Telegraf's own type of a signal has less than the platform's. */
type Options = { signal: never };

function polled<C extends Context>(
  bot: Telegraf<C>,
  { pollSeconds = 8, allowedUpdates = [], onConflict, log, clock }: ReplicateOptions,
  read: Read,
): Omit<Provider, 'send'> {
  const call = (offset: number, more: { limit: number; timeout: number }, signal?: AbortSignal): Promise<Update[]> => {
    const asked = { offset, ...more, ...(more.timeout === 0 ? {} : { allowed_updates: allowedUpdates as never }) };
    return bot.telegram.callApi('getUpdates', asked, (signal === undefined ? {} : { signal }) as Options);
  };
  return longPolling<Update>({
    name: 'telegraf',
    async connect() {
      await introduce(bot);
      // As bot.launch() does: while a webhook is set, nobody may poll.
      await bot.telegram.deleteWebhook();
    },
    poll: (offset, signal) => call(offset, { limit: 100, timeout: pollSeconds }, signal),
    confirm: (offset) => call(offset, { limit: 1, timeout: 0 }),
    longestPollMs: (pollSeconds + POLL_SLACK_SECONDS) * 1000,
    numberOf: ({ update_id }) => update_id,
    read,
    judge,
    onConflict,
    log,
    clock,
  });
}

function posted<C extends Context>(
  bot: Telegraf<C>,
  { secretToken, path }: NonNullable<ReplicateOptions['webhook']>,
  read: Read,
  clock: Clock = systemClock,
): Omit<Provider, 'send'> {
  return {
    name: 'telegraf',
    start: () => inTime({ clock, limitMs: LONGEST_START_MS, who: 'Telegram: getMe' }, () => introduce(bot)),
    stop() {},
    webhook: jsonWebhook({
      header: 'x-telegram-bot-api-secret-token',
      secret: secretToken,
      path,
      read: (body) =>
        Number.isSafeInteger(body.update_id) ? read(body as unknown as Update) : 'update_id: expected a whole number',
    }),
  };
}

/** Telegraf asks for its own name at the first update, and keeps an error for ever; here it is asked again. */
async function introduce<C extends Context>(bot: Telegraf<C>): Promise<void> {
  bot.botInfo ??= await bot.telegram.getMe();
}

function arrival<C extends Context>(
  bot: Telegraf<C>,
  account: string,
  update: Update,
  keys: ReplicateOptions['keys'] = chatOf,
): Arrival {
  const kind = Object.keys(update).find((name) => name !== 'update_id');
  const plain = { account, id: String(update.update_id), update, kind };
  try {
    return { ...plain, keys: orderOf(keys(new Context(update, bot.telegram, bot.botInfo!)), `${WHERE}: keys`) };
  } catch (error) {
    // Taken in all the same, and kept aside where operators find it: nothing is dropped in silence.
    const what = error instanceof Error && 'code' in error ? error.message : `keys threw ${nameOf(error)}`;
    return { ...plain, keys: [], refusal: `${WHERE}: no keys for an update of kind ${kind ?? 'none'}: ${what}` };
  }
}

function chatOf(ctx: Context): string | undefined {
  const id = ctx.chat?.id ?? ctx.from?.id;
  return id === undefined ? undefined : String(id);
}

async function handle<C extends Context>(bot: Telegraf<C>, update: Update): Promise<void> {
  // One that stands by has not been asked for its name yet.
  await introduce(bot);
  await bot.handleUpdate(update);
  // What went wrong because the turn was lost is not told by Telegraf.
  inHand()?.assertHeld();
}

function judge(error: unknown): PollFault {
  const { response } = error as {
    response?: { error_code: number; description?: string; parameters?: { retry_after?: number } };
  };
  if (response === undefined) return { what: `Telegram does not answer (${nameOf(error)})` };
  const { error_code, description = '', parameters } = response;
  const retryAfterMs = parameters?.retry_after === undefined ? undefined : parameters.retry_after * 1000;
  return { what: `getUpdates: ${error_code} ${description}`, isConflict: error_code === 409, retryAfterMs };
}

function nameOf(error: unknown): string {
  return error instanceof Error ? error.name : typeof error;
}
