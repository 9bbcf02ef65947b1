import type { Coordinator, Ticket } from '../coordination/types.js';
import type { Provider } from '../providers/provider.js';
import type { StateStore } from '../state/state-store.js';
import type { Clock } from '../time/clock.js';
import type { Attempt } from './Attempt.js';
import type { Message } from './envelope.js';
import type { Load } from './Load.js';

/** A message with its place, on the way to its turn. */
export interface Work {
  readonly ticket: Ticket;
  readonly id: string | undefined;
  /** The message, or its stored form when another replica took it in. */
  readonly content: Message | string;
  /** 1 for the first try. */
  readonly attempt: number;
}

/** What all turns of a Bot share. */
export interface TurnSetup {
  readonly coordinator: Coordinator;
  /** Whether the coordinator keeps messages. Otherwise they live and die with this process, and retries are made here. */
  readonly isDurable: boolean;
  readonly store: StateStore;
  readonly provider: Provider;
  readonly clock: Clock;
  readonly load: Load;
  /** Aborts when the Bot stops. */
  readonly stopping: AbortSignal;
  readonly maxAttempts: number;
  /** How long the handlers of one message may run. Undefined for no limit. */
  readonly maxTurnMs: number | undefined;
  /** How long to hold the chat after the given attempt failed. */
  retryDelayMs(attempt: number): number;
  /** The user's part. What it throws fails the attempt. */
  handle(attempt: Attempt): unknown;
  /** Hears of every failed attempt while the turn is still held. Must not reject. */
  failed(error: unknown, attempt: Attempt | undefined, work: Work): Promise<void>;
  /** Hears of a message that nobody will handle. */
  dropped(work: Work, why: string): void;
}
