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
import { type Bot, Context } from 'grammy';
import { guardSends } from './guard-sends.js';
import { checkOptions, type Replica, type ReplicateOptions } from './options.js';

type Update = Context['update'];

const WHERE = 'replicate()';
/** A poll that is not over so long after it should be has lost its connection: the framework's client waits for ever. */
const POLL_SLACK_SECONDS = 15;
/** The same of a start by webhook, which must know the bot's name before it takes anything in. */
const LONGEST_START_MS = 15_000;

/**
 * Runs a grammY bot as one of many replicas: instead of `bot.start()`, `run(bot)` or `webhookCallback(bot)`. Each update is
 * stored in the mesh before Telegram hears that it arrived, and handled by `bot.handleUpdate` when it is the turn of its
 * keys, one at a time and in order, on whichever replica.
 *
 * An update whose handlers throw is tried again in its place, and kept aside after the coordinator's `maxAttempts`; one that
 * `bot.catch` takes care of is handled. What handlers sent before they failed is sent again.
 *
 * Gives a `Bot` of `@botmesh/core`: `start()`, `stop()`, `handleSignals()`, `webhook`, `parked()`, `replay()`.
 *
 * @throws ConfigError for options that cannot work, another version of grammY, and a bot that is bound already
 */
export function replicate<C extends Context>(bot: Bot<C>, options: ReplicateOptions<C>): Replica {
  checkOptions(bot, options);
  checkPeer('grammy', versionOf('grammy', import.meta.url), { from: [1, 20], lastMajor: 1 });
  const { keys, webhook } = options;
  const account = bot.token.split(':')[0] ?? '';
  const read = (update: Update) => messageOf(arrival(bot, account, update, keys));
  const replica = bind({
    framework: 'grammY',
    bot,
    options,
    provider: webhook === undefined ? polled(bot, options, read) : posted(bot, webhook, read, options.clock),
    account: () => account,
    handle: (update) => handle(bot, update as Update),
  });
  guardSends(bot.api);
  return replica;
}

type Read = (update: Update) => ReturnType<typeof messageOf>;

function polled<C extends Context>(
  bot: Bot<C>,
  { pollSeconds = 8, allowedUpdates = [], onConflict, log, clock }: ReplicateOptions<C>,
  read: Read,
): Omit<Provider, 'send'> {
  return longPolling<Update>({
    name: 'grammy',
    async connect(signal) {
      await bot.init(signal as never);
      // As bot.start() does: while a webhook is set, nobody may poll.
      await bot.api.deleteWebhook({}, signal as never);
    },
    poll: (offset, signal) =>
      bot.api.getUpdates(
        { offset, limit: 100, timeout: pollSeconds, allowed_updates: allowedUpdates },
        signal as never,
      ),
    confirm: (offset) => bot.api.getUpdates({ offset, limit: 1, timeout: 0 }),
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
  bot: Bot<C>,
  { secretToken, path }: NonNullable<ReplicateOptions<C>['webhook']>,
  read: Read,
  clock: Clock = systemClock,
): Omit<Provider, 'send'> {
  return {
    name: 'grammy',
    // By itself grammY asks for its name until it gets it, and says nothing.
    start: () => inTime({ clock, limitMs: LONGEST_START_MS, who: 'Telegram: getMe' }, (cut) => bot.init(cut as never)),
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

function arrival<C extends Context>(
  bot: Bot<C>,
  account: string,
  update: Update,
  keys: ReplicateOptions<C>['keys'] = chatOf,
): Arrival {
  const kind = Object.keys(update).find((name) => name !== 'update_id');
  const plain = { account, id: String(update.update_id), update, kind };
  try {
    return { ...plain, keys: orderOf(keys(new Context(update, bot.api, bot.botInfo)), `${WHERE}: keys`) };
  } catch (error) {
    // Taken in all the same, and kept aside where operators find it: nothing is dropped in silence.
    const what = error instanceof Error && 'code' in error ? error.message : `keys threw ${nameOf(error)}`;
    return { ...plain, keys: [], refusal: `${WHERE}: no keys for an update of kind ${kind ?? 'none'}: ${what}` };
  }
}

function chatOf(ctx: Context): string | undefined {
  // Not ctx.chatId, which the first versions of the range do not have.
  const id = ctx.chat?.id ?? ctx.businessConnection?.user_chat_id ?? ctx.from?.id;
  return id === undefined ? undefined : String(id);
}

async function handle<C extends Context>(bot: Bot<C>, update: Update): Promise<void> {
  // One that stands by has not been asked for its name yet.
  if (!bot.isInited()) await bot.init();
  try {
    await bot.handleUpdate(update);
  } catch (error) {
    // Of a turn that is lost, another replica sees to.
    inHand()?.assertHeld();
    if (!isBotError(error)) throw error;
    await bot.errorHandler(error);
  }
}

function isBotError(error: unknown): error is Parameters<Bot['errorHandler']>[0] & { ctx: never } {
  return error instanceof Error && error.name === 'BotError';
}

function judge(error: unknown): PollFault {
  const { error_code, description, parameters } = error as {
    error_code?: number;
    description?: string;
    parameters?: { retry_after?: number };
  };
  if (error_code === undefined) return { what: `Telegram does not answer (${nameOf(error)})` };
  const retryAfterMs = parameters?.retry_after === undefined ? undefined : parameters.retry_after * 1000;
  return { what: `getUpdates: ${error_code} ${description ?? ''}`, isConflict: error_code === 409, retryAfterMs };
}

function nameOf(error: unknown): string {
  return error instanceof Error ? error.name : typeof error;
}
