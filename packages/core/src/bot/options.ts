import type { Coordinator } from '../coordination/types.js';
import { ConfigError } from '../errors.js';
import type { Provider } from '../providers/provider.js';
import type { StateStore } from '../state/state-store.js';
import type { Clock } from '../time/clock.js';
import type { Context } from './Context.js';

/** Hears of what went wrong. `ctx` is missing where no message is in hand, or it could not be read. */
// biome-ignore lint/suspicious/noExplicitAny: a hook may serve any Bot
export type ErrorHook = (error: unknown, ctx: Context<any> | undefined) => unknown;

export interface BotOptions {
  provider: Provider;
  /**
   * How this replica agrees with the others. Without one the Bot runs alone: messages are kept in this process, and end
   * with it.
   */
  coordinator?: Coordinator;
  /** Where the state of chats is kept. Default: the coordinator's own, if it brings one, else this process. */
  state?: StateStore;
  onError?: ErrorHook;
  /** How long to hold the chat after a first failure, in milliseconds; doubled each time, at most 10 s. Default 100. */
  retryDelayMs?: number;
  /** How often a message is tried when the Bot runs alone. With a coordinator, that one's `maxAttempts` counts. Default 5. */
  maxAttempts?: number;
  /** How long the handlers of one message may run, in milliseconds, before the message counts as failed. Default: no limit. */
  maxTurnMs?: number;
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

export function checkOptions(options: BotOptions): void {
  const { provider, retryDelayMs = 0, maxAttempts = 1, maxTurnMs = 1 } = options ?? {};
  if (typeof provider?.start !== 'function' || typeof provider.send !== 'function') {
    throw new ConfigError('Bot: no provider. Pass { provider }, for example terminal().');
  }
  if (!(retryDelayMs >= 0)) throw new ConfigError(`Bot: retryDelayMs is ${retryDelayMs}. Give a number from 0 up.`);
  if (!(maxTurnMs > 0 && maxTurnMs < 2 ** 31)) {
    throw new ConfigError(`Bot: maxTurnMs is ${maxTurnMs}. Give a number above 0, or leave it out for no limit.`);
  }
  if (!Number.isSafeInteger(maxAttempts) || maxAttempts < 1) {
    throw new ConfigError(`Bot: maxAttempts is ${maxAttempts}. Give a whole number from 1 up.`);
  }
}

export function backoff(firstMs: number): (attempt: number) => number {
  return (attempt) => Math.min(firstMs * 2 ** (attempt - 1), LONGEST_DELAY_MS);
}
