import { CoordinationUnavailableError } from '../errors.js';
import type { Clock } from '../time/clock.js';
import { pause } from './pause.js';

const FIRST_DELAY_MS = 100;
const LONGEST_DELAY_MS = 3_000;
/** A call that works when it is made again is nobody's trouble: from this one on it is told of. */
const TOLD_TRY = 2;

const WORDS = { load: 'read', save: 'saved' } as const;

export type StateCall = keyof typeof WORDS;

/** Whether the state store cannot be reached, or has no room: the same call may work later. */
export function isAway(error: unknown): boolean {
  return error instanceof CoordinationUnavailableError;
}

/** How long to wait before the call is made again that failed `tries` times. */
export function delayMs(clock: Clock, tries: number): number {
  const mostMs = Math.min(FIRST_DELAY_MS * 2 ** (tries - 1), LONGEST_DELAY_MS);
  // Not all at the same moment.
  return mostMs * (0.75 + clock.random() / 4);
}

/** What one call of the state store cannot do for a while, seen by all turns of a replica: told once, and once when it can again. */
export class StateOutage {
  readonly #call: StateCall;
  readonly #clock: Clock;
  readonly #tell: (line: string) => void;
  /** Undefined iff it works, as far as is known. */
  #sinceMs: number | undefined;
  #waiting = 0;
  #isTold = false;

  constructor(call: StateCall, clock: Clock, tell: (line: string) => void) {
    this.#call = call;
    this.#clock = clock;
    this.#tell = tell;
  }

  get isAway(): boolean {
    return this.#sinceMs !== undefined;
  }

  /** A call has failed so many times by now. */
  failed(tries: number, error: unknown): void {
    if (tries === 1) this.#waiting += 1;
    this.#sinceMs ??= this.#clock.monotonicMs();
    if (tries < TOLD_TRY || this.#isTold) return;
    this.#isTold = true;
    const why = error instanceof Error ? error.message : 'the state store does not answer';
    this.#tell(`state cannot be ${WORDS[this.#call]} (${why}) It is tried again until it can; chats wait meanwhile.`);
  }

  /** A call has worked, maybe after it had failed. */
  worked(hadFailed: boolean): void {
    if (hadFailed) this.#waiting -= 1;
    if (this.#sinceMs === undefined || this.#waiting > 0) return;
    const awayMs = Math.round(this.#clock.monotonicMs() - this.#sinceMs);
    if (this.#isTold) this.#tell(`state can be ${WORDS[this.#call]} again, after ${awayMs} ms.`);
    this.#sinceMs = undefined;
    this.#isTold = false;
  }

  /** A call that had failed is made no more. */
  gaveUp(): void {
    this.#waiting -= 1;
  }

  /** What `act` gives, once the store is there. Rejects as it does when that has another reason, or when `signal` aborts. */
  async outlast<T>(act: () => Promise<T>, signal: AbortSignal): Promise<T> {
    for (let tries = 0; ; ) {
      try {
        const result = await act();
        if (this.isAway) this.worked(tries > 0);
        return result;
      } catch (error) {
        if (!isAway(error) || signal.aborted) {
          if (tries > 0) this.gaveUp();
          throw error;
        }
        this.failed(++tries, error);
      }
      await pause(this.#clock, delayMs(this.#clock, tries), signal);
    }
  }
}

/** Of each call of the state store. */
export type StateOutages = { readonly [Call in StateCall]: StateOutage };

export function stateOutages(clock: Clock, tell: (line: string) => void): StateOutages {
  return { load: new StateOutage('load', clock, tell), save: new StateOutage('save', clock, tell) };
}
