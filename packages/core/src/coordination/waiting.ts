import type { LeaseLostError } from '../errors.js';
import type { Clock, Timer } from '../time/clock.js';
import type { Hold } from './held.js';
import type { Note } from './store.js';

/**
 * A place of this replica in a key's queue.
 *
 * open → waiting → held → ending, and from every stage but the last → lost or ending. `fence` is not 0 from the moment a
 * grant is believed; a lapse of trust sets it back to 0 where nobody holds it yet.
 */
export interface Place {
  /** The key as the store knows it. */
  readonly key: string;
  /** The key or name as the user knows it. */
  readonly name: string;
  readonly kind: 'turn' | 'leadership';
  readonly seq: number;
  readonly isMessage: boolean;
  /** Waits on through outages. */
  isCampaign: boolean;
  fence: number;
  stage: 'open' | 'waiting' | 'held' | 'ending' | 'lost';
  /** When it was granted, held or lost, by the monotonic clock. */
  sinceMs: number;
  wasTold: boolean;
  wait: Wait | undefined;
  hold: Hold | undefined;
  /** What was told to it before it was held. */
  readonly notes: Note[];
  error: LeaseLostError | undefined;
}

/** Somebody waiting in `acquireTurn`. Ends once. */
export class Wait {
  readonly #clock: Clock;
  readonly #resolve: (hold: Hold) => void;
  readonly #reject: (reason: unknown) => void;
  #timer: Timer | undefined;
  #signal: AbortSignal | undefined;
  #onAbort: (() => void) | undefined;

  constructor(clock: Clock, resolve: (hold: Hold) => void, reject: (reason: unknown) => void) {
    this.#clock = clock;
    this.#resolve = resolve;
    this.#reject = reject;
  }

  limit(timeoutMs: number | undefined, onTimeout: () => void): void {
    if (timeoutMs === undefined || timeoutMs > MAX_TIMER_MS) return;
    this.#timer = this.#clock.setTimer(timeoutMs, onTimeout);
  }

  abortBy(signal: AbortSignal | undefined, onAbort: () => void): void {
    if (signal === undefined) return;
    this.#signal = signal;
    this.#onAbort = onAbort;
    signal.addEventListener('abort', onAbort, { once: true });
  }

  resolve(hold: Hold): void {
    this.#clear();
    this.#resolve(hold);
  }

  reject(reason: unknown): void {
    this.#clear();
    this.#reject(reason);
  }

  #clear(): void {
    if (this.#timer !== undefined) this.#clock.clearTimer(this.#timer);
    if (this.#onAbort !== undefined) this.#signal?.removeEventListener('abort', this.#onAbort);
    this.#timer = undefined;
    this.#onAbort = undefined;
  }
}

/** Longer timers overflow and fire at once. A limit of 24 days is none. */
const MAX_TIMER_MS = 2 ** 31 - 1;
