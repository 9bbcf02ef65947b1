import type { Clock, Timer } from '../time/clock.js';

/**
 * One run of something that may never end: its caller goes on without it when its time is over, or when it was asked to
 * end and did not within a grace. Nobody can stop its code.
 */
export class Run {
  readonly #clock: Clock;
  #reject: ((error: unknown) => void) | undefined;
  #limit: Timer | undefined;
  #grace: Timer | undefined;
  #endsAtMs = 0;
  #lastMs = 0;
  #limitMs = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** What `act` gives; rejects with the reason when it is given up. */
  of<T>(act: () => T, limit?: RunLimit): T | Promise<Awaited<T>> {
    if (limit !== undefined) this.#begin(limit);
    let result: T;
    try {
      result = act();
    } catch (error) {
      this.#clear();
      throw error;
    }
    if (!isThenable(result)) {
      this.#clear();
      return result;
    }
    return new Promise((resolve, reject) => {
      this.#reject = reject;
      (result as PromiseLike<Awaited<T>>).then(
        (value) => {
          this.#clear();
          resolve(value);
        },
        (error: unknown) => {
          this.#clear();
          reject(error);
        },
      );
    });
  }

  /** It goes on well: its time begins anew, within the bound of its limit. */
  extend(): void {
    if (this.#limit === undefined) return;
    this.#endsAtMs = Math.min(this.#clock.monotonicMs() + this.#limitMs, this.#lastMs);
  }

  /** Gives it up with `error` unless it ends within `graceMs`. Only the first call counts. */
  endWithin(graceMs: number, error: Error): void {
    if (this.#reject === undefined || this.#grace !== undefined) return;
    this.#grace = this.#clock.setTimer(graceMs, () => this.#giveUp(error));
  }

  #begin({ limitMs, boundMs, onLimit }: RunLimit): void {
    const nowMs = this.#clock.monotonicMs();
    this.#limitMs = limitMs;
    this.#endsAtMs = nowMs + limitMs;
    this.#lastMs = nowMs + boundMs;
    const look = (): void => {
      const leftMs = this.#endsAtMs - this.#clock.monotonicMs();
      if (leftMs > 0) this.#limit = this.#clock.setTimer(leftMs, look);
      else this.#giveUp(onLimit());
    };
    this.#limit = this.#clock.setTimer(limitMs, look);
  }

  #giveUp(error: Error): void {
    this.#reject?.(error);
    this.#clear();
  }

  #clear(): void {
    this.#reject = undefined;
    if (this.#limit !== undefined) this.#clock.clearTimer(this.#limit);
    if (this.#grace !== undefined) this.#clock.clearTimer(this.#grace);
    this.#limit = undefined;
    this.#grace = undefined;
  }
}

export interface RunLimit {
  /** How long it may run without a sign of progress. */
  readonly limitMs: number;
  /** How long it may run at all. */
  readonly boundMs: number;
  /** Called when its time is over; gives the error to give up with. */
  readonly onLimit: () => Error;
}

function isThenable(value: unknown): boolean {
  return typeof (value as { then?: unknown } | null | undefined)?.then === 'function';
}
