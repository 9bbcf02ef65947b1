import { Bot } from '../bot/Bot.js';
import type { Context } from '../bot/Context.js';
import type { BotOptions } from '../bot/options.js';
import type { Coordinator } from '../coordination/types.js';
import { BadInputError, ConfigError, checkOptionNames } from '../errors.js';
import { isDurable } from '../pipeline/ingress.js';
import type { IncomingMessage, Intake, Provider } from '../providers/provider.js';
import { MemoryStateStore } from '../state/MemoryStateStore.js';
import { Hand } from './hand.js';
import { takeRest } from './take-keys.js';

/** What every binding takes besides its own options. As of `BotOptions`. */
export interface BindingOptions
  extends Pick<
    BotOptions,
    'state' | 'onError' | 'retryDelayMs' | 'maxTurnMs' | 'maxProgressMs' | 'graceMs' | 'log' | 'clock'
  > {
  /** How this replica agrees with the others. Give each bot a namespace of its own. */
  coordinator: Coordinator;
}

const NAMES: { readonly [Name in keyof Required<BindingOptions>]: true } = {
  coordinator: true,
  state: true,
  onError: true,
  retryDelayMs: true,
  maxTurnMs: true,
  maxProgressMs: true,
  graceMs: true,
  log: true,
  clock: true,
};

/** An update as it comes from the platform. */
export interface Arrival {
  /** The platform's account that it came to. */
  readonly account: string;
  /** The same in every delivery of the update. Ids are compared within its first key. */
  readonly id: string;
  /** All that must be held while it is handled, as `orderOf` gives them. With none it waits for nothing. */
  readonly keys: readonly string[];
  /** Plain JSON data. */
  readonly update: unknown;
  readonly kind?: string | undefined;
  /** Why it cannot be handled as it should: it is tried, and kept aside, under a key of its own. */
  readonly refusal?: string | undefined;
}

interface Stored {
  readonly account: string;
  readonly update: unknown;
  readonly keys: readonly string[];
  readonly refusal?: string;
}

export interface Binding {
  /** For messages to people: `grammY`. */
  readonly framework: string;
  /** The framework's own bot. One binding each. */
  readonly bot: object;
  /** The user's. Those that are the binding's own are left alone. */
  readonly options: BindingOptions;
  /** Receives: it gives its intake what `messageOf` makes of an arrival. Its `send` is not used. */
  readonly provider: Omit<Provider, 'send'>;
  /** The account that this replica runs. Updates of another one are refused. */
  readonly account: () => string;
  /**
   * The framework's part, in the turn of the update: all its keys are held, `inHand()` finds them. What it throws fails the
   * attempt: it is tried again in its place, and kept aside after the coordinator's `maxAttempts`.
   */
  readonly handle: (update: unknown, ctx: Context) => unknown;
}

const bound = new WeakSet<object>();

/** The message that an arrival is in the queue of its first key. */
export function messageOf({ account, id, keys, update, kind, refusal }: Arrival): IncomingMessage {
  const raw: Stored = { account, update, keys, ...(refusal === undefined ? {} : { refusal }) };
  return { chat: keys[0] ?? `alone:${account}:${id}`, id: `${account}:${id}`, text: '', kind, raw };
}

/**
 * Runs the bot of a framework on a mesh: what its platform delivers is accepted, answered for, and handled in the turn of
 * its keys, on whichever replica. Gives the replica, which is a Bot whose one handler is the framework's: start it, stop
 * it, ask it for what is parked.
 *
 * @throws ConfigError for options that cannot work, and for a bot that is bound already
 */
export function bind({ framework, bot, options, provider, account, handle }: Binding): Bot {
  const { coordinator } = options;
  if (coordinator === undefined) {
    throw new ConfigError(
      `${framework}: no coordinator. Pass { coordinator }, such as RedisCoordinator of @botmesh/redis.`,
    );
  }
  if (bound.has(bot)) {
    throw new ConfigError(
      `${framework}: this bot is bound already. One replica has one binding; make a new bot for another.`,
    );
  }
  // What the framework's handlers know is in sessions of their own: nothing is to be loaded for a message.
  const replica: Bot = new Bot({
    state: new MemoryStateStore(),
    ...own(options),
    provider: whole(provider, () => replica, options),
  });
  bound.add(bot);
  replica.use(async (ctx) => {
    for (const { raw } of ctx.messages) await run(coordinator, ctx, raw as Stored, { framework, account, handle });
  });
  return replica;
}

type Part = Pick<Binding, 'framework' | 'account' | 'handle'>;

function run(coordinator: Coordinator, ctx: Context, stored: Stored, { framework, account, handle }: Part): unknown {
  const { update, keys, refusal } = stored;
  if (refusal !== undefined) throw new BadInputError(refusal);
  if (stored.account !== account()) {
    throw new BadInputError(
      `${framework}: this update is of the account ${stored.account}, and this replica runs ${account()}. Give each bot a namespace of its own.`,
    );
  }
  const hand = new Hand(coordinator);
  hand.add(ctx.turn, ctx.signal);
  return hand.run(() => takeRest(hand, keys.slice(1), () => handle(update, ctx)));
}

/** A provider that is never asked to send, and answers for an update only when it is safe. */
function whole(provider: Binding['provider'], replica: () => Bot, { coordinator }: BindingOptions): Provider {
  const { name, exclusive, ended } = provider;
  const safely = isDurable(coordinator) ? (intake: Intake): Intake => intake : untilHandled(replica);
  return {
    name,
    ...(exclusive === undefined ? {} : { exclusive }),
    ...(ended === undefined ? {} : { ended }),
    start: (intake, lead) => provider.start(safely(intake), lead),
    stop: () => provider.stop(),
    close: () => provider.close?.(),
    ...(provider.webhook === undefined
      ? {}
      : { webhook: (request: Request, intake: Intake) => provider.webhook!(request, safely(intake)) }),
    send(): never {
      throw new BadInputError('A replica of a binding does not reply: use the framework to send.');
    },
  };
}

/** Where no coordinator keeps a message, it is safe only when it is handled. */
function untilHandled(replica: () => Bot): (intake: Intake) => Intake {
  const waiting = new Map<string, () => void>();
  let isHearing = false;
  const hear = (): void => {
    if (isHearing) return;
    isHearing = true;
    replica().on('ended', ({ chat, id }) => waiting.get(JSON.stringify([chat, id]))?.());
  };
  return (intake) => async (message) => {
    hear();
    if (message.id === undefined) return intake(message);
    const name = JSON.stringify([message.chat, message.id]);
    const ended = new Promise<void>((resolve) => waiting.set(name, resolve));
    try {
      const answer = await intake(message);
      if (answer === 'accepted') await ended;
      return answer;
    } finally {
      waiting.delete(name);
    }
  };
}

function own(options: BindingOptions): BindingOptions {
  const known = Object.entries(options).filter(([name]) => name in NAMES);
  return Object.fromEntries(known) as unknown as BindingOptions;
}

/** The names of all options, those of a binding and its own. */
export function checkBinding(where: string, options: unknown, own: Readonly<Record<string, true>>): void {
  checkOptionNames(where, options, { ...NAMES, ...own });
}
