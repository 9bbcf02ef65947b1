import { BadInputError, ConfigError, checkOptionNames } from '../errors.js';
import { checkDrainMs } from '../pipeline/drain.js';

export interface SignalOptions {
  /** Default SIGTERM and SIGINT. */
  signals?: readonly string[];
  /** As of `bot.stop()`. */
  drainMs?: number;
  /** Whether to end the process when the bot has stopped: with 0, or with 1 when a second signal cut it short. Default true. */
  exit?: boolean;
}

/** As much of a process as is needed. */
export interface SignalSource {
  on(signal: string, listener: () => void): unknown;
  off(signal: string, listener: () => void): unknown;
  exit(code: number): void;
}

/** What is stopped. */
export interface Stoppable {
  stop(options: { drainMs?: number }): Promise<void>;
}

const SIGNALS = ['SIGTERM', 'SIGINT'];

/**
 * Stops `bot` at the first signal, and cuts that short at the second. Its listeners are gone when the bot has stopped, or
 * when the returned function is called.
 */
export function handleSignals(bot: Stoppable, options: SignalOptions, source: SignalSource): () => void {
  const { signals, drainMs, exit } = checked(options);
  let count = 0;
  const off = (): void => {
    for (const signal of signals) source.off(signal, onSignal);
  };
  const onSignal = (): void => {
    count += 1;
    // A third one finds no listener, and ends the process as the platform does.
    if (count > 1) off();
    const stopped = bot.stop(count > 1 ? { drainMs: 0 } : { drainMs });
    if (count > 1) return;
    void stopped.then(() => {
      off();
      if (exit) source.exit(count > 1 ? 1 : 0);
    });
  };
  for (const signal of signals) source.on(signal, onSignal);
  return off;
}

function checked(options: SignalOptions): { signals: readonly string[]; drainMs: number; exit: boolean } {
  checkOptionNames('bot.handleSignals()', options, { signals: true, drainMs: true, exit: true });
  const { signals = SIGNALS, drainMs = DRAIN_MS, exit = true } = options;
  if (!Array.isArray(signals) || signals.length === 0 || signals.some((signal) => typeof signal !== 'string')) {
    throw new ConfigError("bot.handleSignals(): signals is no list of names. Pass ['SIGTERM', 'SIGINT'].");
  }
  return { signals, drainMs: checkDrainMs(drainMs), exit };
}

/** How long `bot.stop()` lets turns run when it is told nothing. */
export const DRAIN_MS = 10_000;

/** The process this runs in, where there is one. */
export function thisProcess(): SignalSource {
  const { process } = globalThis as { process?: SignalSource };
  if (process !== undefined) return process;
  throw new BadInputError('bot.handleSignals(): there is no process here. Call bot.stop() when the platform says so.');
}
