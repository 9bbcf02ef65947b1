import type { Coordinator } from '../coordination/types.js';
import { ConfigError, checkOptionNames, shown } from '../errors.js';
import { type Overlap, type OverlapByKind, settleOverlap } from '../pipeline/overlap.js';
import type { Rate, Rates } from '../pipeline/Pacer.js';
import type { UnknownSends } from '../pipeline/sends.js';
import type { Provider } from '../providers/provider.js';
import { isPlainObject, kindOf } from '../state/plain-data.js';
import type { StateShape } from '../state/schema.js';
import type { StateStore } from '../state/state-store.js';
import type { Clock } from '../time/clock.js';
import type { AnyContext } from './Context.js';
import type { RejectedHook } from './rejected.js';

/** Hears of what went wrong. `ctx` is missing where no message is in hand, or it could not be read. */
export type ErrorHook = (error: unknown, ctx: AnyContext | undefined) => unknown;

/** Where state is kept, and what it must be: that of each chat, of each user, and of all together. */
export interface StateOptions<S extends object, U extends object, G extends object> extends StateShape<S> {
  /** Where it is kept. Default: the coordinator's own, if it brings one, else this process. */
  store?: StateStore;
  /** What is kept of each user: `ctx.hold('user')`. */
  user?: StateShape<U>;
  /** What is kept once for the whole bot: `ctx.hold('global')`. */
  global?: StateShape<G>;
}

// biome-ignore lint/suspicious/noExplicitAny: where it does not matter what the states are
export interface BotOptions<S extends object = any, U extends object = any, G extends object = any> {
  provider: Provider;
  /**
   * How this replica agrees with the others. Without one the Bot runs alone: messages are kept in this process, and end
   * with it.
   */
  coordinator?: Coordinator;
  /**
   * Where state is kept, or that and what it must be: `{ schema, version, migrate, store, user, global }`. Default: the
   * coordinator's own, if it brings one, else this process; any plain JSON data.
   */
  state?: StateStore | StateOptions<S, U, G>;
  onError?: ErrorHook;
  /** How long to hold the chat after a first failure, in milliseconds; doubled each time, at most 10 s. Default 100. */
  retryDelayMs?: number;
  /** How often a message is tried when the Bot runs alone. With a coordinator, that one's `maxAttempts` counts. Default 5. */
  maxAttempts?: number;
  /** How long the handlers of one message may run, in milliseconds, before the message counts as failed. Default: no limit. */
  maxTurnMs?: number;
  /** How long they may run at all when they call `ctx.progress`, in milliseconds. Default ten times `maxTurnMs`. */
  maxProgressMs?: number;
  /** How long handlers that were cancelled or interrupted may take to end, in milliseconds, before they are cut off. Default 5,000. */
  graceMs?: number;
  /**
   * What becomes of a message that comes while its chat is busy: `serial` (it waits for its own turn), `collect`,
   * `interrupt`, `latest` or `reject`; or one for each kind of message. Default `serial`.
   */
  overlap?: Overlap | OverlapByKind;
  /**
   * What becomes of a message while the backend is away: `refuse` it, so that the platform delivers it again, or handle it
   * at once, `local`, in the order of this process alone and without the state of its chat. Default `refuse`.
   */
  onUnavailable?: 'refuse' | 'local';
  /**
   * How often replicas look how the accounts of a provider with several are shared, in milliseconds; also how soon a free one
   * is taken. The same in all replicas. Default 2,000.
   */
  balanceMs?: number;
  /** How fast replies may leave, over all replicas. Default: as fast as the platform takes them. */
  rates?: Rates;
  /**
   * What a new attempt does about a reply of which nobody knows whether it left, because its replica died at that moment:
   * `resend` or `drop` it. Either puts each reply on record before it leaves, which is one more write to the state store.
   * Default: no such record; after a crash all replies of the message are sent again, with the same idempotency keys.
   */
  onUnknownSend?: UnknownSends;
  /** Hears of a message that `reject` ended because its chat was busy, and may answer it. */
  onRejected?: RejectedHook;
  /** Where what operators should know is told, a line each. Default `console.warn`. */
  log?: (line: string) => void;
  /** Where time comes from. For tests. */
  clock?: Clock;
}

/** A coordinator that brings the place for state along, shared by its whole mesh. */
export interface BringsState {
  readonly stateStore: StateStore;
}

const LONGEST_DELAY_MS = 10_000;

const STATE_NAMES: { [Name in keyof Required<StateOptions<object, object, object>>]: true } = {
  schema: true,
  version: true,
  migrate: true,
  store: true,
  user: true,
  global: true,
};

const NAMES: { [Name in keyof Required<BotOptions>]: true } = {
  provider: true,
  coordinator: true,
  state: true,
  onError: true,
  retryDelayMs: true,
  maxAttempts: true,
  maxTurnMs: true,
  maxProgressMs: true,
  graceMs: true,
  overlap: true,
  onUnavailable: true,
  balanceMs: true,
  rates: true,
  onUnknownSend: true,
  onRejected: true,
  log: true,
  clock: true,
};

/** @throws ConfigError naming the option, what was found and what is expected */
export function checkOptions(options: BotOptions): void {
  checkProvider(options?.provider);
  checkOptionNames('Bot', options, NAMES);
  checkPart('coordinator', options.coordinator, ['start', 'stop', 'reserve', 'acquireTurn', 'on'], 'a coordinator');
  checkPart('clock', options.clock, ['monotonicMs', 'wallMs', 'setTimer', 'clearTimer'], 'a Clock');
  checkState(options.state);
  for (const name of ['onError', 'onRejected', 'log'] as const) {
    const value: unknown = options[name];
    if (value === undefined || typeof value === 'function') continue;
    throw new ConfigError(`Bot: ${name} is ${kindOf(value)}. Pass a function.`);
  }
  const { retryDelayMs = 0, maxAttempts = 1, maxTurnMs = 1 } = options;
  if (!isNumber(retryDelayMs) || !(retryDelayMs >= 0)) {
    throw new ConfigError(`Bot: retryDelayMs is ${shown(retryDelayMs)}. Give a number from 0 up.`);
  }
  if (!isNumber(maxTurnMs) || !(maxTurnMs > 0 && maxTurnMs < 2 ** 31)) {
    throw new ConfigError(
      `Bot: maxTurnMs is ${shown(maxTurnMs)}. Give a number above 0, or leave it out for no limit.`,
    );
  }
  const { maxProgressMs = 1, graceMs = 1 } = options;
  for (const [name, value] of Object.entries({ maxProgressMs, graceMs })) {
    if (typeof value === 'number' && value >= 0 && value < 2 ** 31) continue;
    throw new ConfigError(`Bot: ${name} is ${shown(value)}. Give a number of milliseconds from 0 up.`);
  }
  const { balanceMs = 1 } = options;
  if (!isNumber(balanceMs) || !(balanceMs > 0 && balanceMs < 2 ** 31)) {
    throw new ConfigError(`Bot: balanceMs is ${shown(balanceMs)}. Give a number of milliseconds above 0.`);
  }
  settleOverlap(options.overlap);
  checkSending(options);
  if (!Number.isSafeInteger(maxAttempts) || maxAttempts < 1) {
    throw new ConfigError(`Bot: maxAttempts is ${shown(maxAttempts)}. Give a whole number from 1 up.`);
  }
}

function checkProvider(provider: unknown): void {
  const { start, send } = (provider ?? {}) as Partial<Record<string, unknown>>;
  if (typeof start === 'function' && typeof send === 'function') {
    checkAccounts(provider as Provider);
    return;
  }
  if (typeof provider === 'function') {
    const name = provider.name === '' ? 'terminal' : provider.name;
    throw new ConfigError(`Bot: provider is a function. Did you forget ()? Pass ${name}(), not ${name}.`);
  }
  const found = provider === undefined || provider === null ? '' : `, but ${kindOf(provider)}`;
  throw new ConfigError(`Bot: no provider${found}. Pass { provider }, for example terminal().`);
}

function checkAccounts({ name, accounts, accountOf, exclusive }: Provider): void {
  if (accounts === undefined) return;
  const names: readonly unknown[] = Array.isArray(accounts) ? accounts : [];
  const isNamed = names.length > 0 && names.every((each) => typeof each === 'string' && each !== '');
  if (!isNamed || new Set(names).size < names.length) {
    throw new ConfigError(`Bot: accounts of provider ${name}: expected a list of different names, with at least one.`);
  }
  if (!exclusive || typeof accountOf !== 'function') {
    const missing = exclusive ? 'accountOf(chat)' : "exclusive: true or 'receiving'";
    throw new ConfigError(`Bot: provider ${name} has accounts, without ${missing}. Give it that, or no accounts.`);
  }
}

function checkState(state: unknown): void {
  // Anything but options is meant to be a store.
  if (!isPlainObject(state) || 'load' in state || 'save' in state) {
    checkPart('state', state, ['load', 'save'], 'a StateStore');
    return;
  }
  checkOptionNames('Bot: state', state, STATE_NAMES);
  checkPart('state.store', state.store, ['load', 'save'], 'a StateStore');
}

/** Looks at the methods, not at the class: one from another copy of this package will do. */
function checkPart(name: string, part: unknown, methods: readonly string[], what: string): void {
  if (part === undefined) return;
  const missing = methods.find((method) => typeof (part as Record<string, unknown> | null)?.[method] !== 'function');
  if (missing === undefined) return;
  if (typeof part === 'function') {
    throw new ConfigError(`Bot: ${name} is a function or a class. Pass ${what}, made with new.`);
  }
  throw new ConfigError(`Bot: ${name} is ${kindOf(part)} without ${missing}(). Pass ${what}, or leave it out.`);
}

function checkSending({ onUnavailable, rates, onUnknownSend }: BotOptions): void {
  if (onUnavailable !== undefined && onUnavailable !== 'refuse' && onUnavailable !== 'local') {
    throw new ConfigError(`Bot: onUnavailable is ${String(onUnavailable)}. Pass 'refuse' or 'local', or leave it out.`);
  }
  if (onUnknownSend !== undefined && onUnknownSend !== 'resend' && onUnknownSend !== 'drop') {
    throw new ConfigError(`Bot: onUnknownSend is ${String(onUnknownSend)}. Pass 'resend' or 'drop', or leave it out.`);
  }
  if (rates === undefined) return;
  checkOptionNames('Bot: rates', rates, { account: true, chat: true });
  for (const [name, rate] of Object.entries(rates)) {
    if (rate === undefined) continue;
    checkOptionNames(`Bot: rates.${name}`, rate, { perSecond: true, burst: true });
    const { perSecond, burst = 1 } = rate as Rate;
    // Slower than one in an hour is slower than stores can tell.
    if (!isNumber(perSecond) || !(perSecond >= 1 / 3_600 && perSecond <= 100_000)) {
      throw new ConfigError(
        `Bot: rates.${name}.perSecond is ${shown(perSecond)}. Give a number from 1/3600 to 100,000.`,
      );
    }
    if (!isNumber(burst) || !(burst >= 1 && burst <= 3_600 * perSecond)) {
      throw new ConfigError(
        `Bot: rates.${name}.burst is ${shown(burst)}. Give a number from 1 up, of at most an hour's sends.`,
      );
    }
  }
}

/** A text of digits compares as a number does, and adds as a text. */
function isNumber(value: unknown): boolean {
  return typeof value === 'number';
}

export function backoff(firstMs: number): (attempt: number) => number {
  return (attempt) => Math.min(firstMs * 2 ** (attempt - 1), LONGEST_DELAY_MS);
}
