import type { Clock, Timer } from '../time/clock.js';

/**
 * One run of something that may never end: its caller goes on without it when its time is over, or when it was asked to
 * end and did not within a grace. Nobody can stop its code. Call `end` when the caller goes on.
 */
export class Run {
  readonly #clock: Clock;
  #reject: ((error: unknown) => void) | undefined;
  #time: Time | undefined;
  #grace: Timer | undefined;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** What `act` gives; rejects with the reason when it is given up. */
  of<T>(act: () => T, limit?: RunLimit): T | Promise<Awaited<T>> {
    // Before it: what it does at once counts too.
    if (limit !== undefined) this.#time = new Time(this.#clock, limit, (error) => this.#reject?.(error));
    return this.join(act());
  }

  /** The same for what has begun, without a limit. */
  join<T>(result: T): T | Promise<Awaited<T>> {
    if (!isThenable<Awaited<T>>(result)) return result;
    return new Promise((resolve, reject) => {
      this.#reject = reject;
      result.then(resolve, reject);
    });
  }

  /** It goes on well: its time begins anew, within the bound of its limit. */
  extend(): void {
    this.#time?.extend();
  }

  /** Gives it up with `error` unless it ends within `graceMs`. Only the first call counts. */
  endWithin(graceMs: number, error: Error): void {
    if (this.#reject === undefined) return;
    this.#grace ??= this.#clock.setTimer(graceMs, () => this.#reject?.(error));
  }

  /** Nobody waits for it any more. */
  end(): void {
    this.#reject = undefined;
    this.#time?.end();
    if (this.#grace !== undefined) this.#clock.clearTimer(this.#grace);
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

/** The time of a run that has a limit. */
class Time {
  readonly #clock: Clock;
  readonly #limit: RunLimit;
  readonly #lastMs: number;
  #endsAtMs: number;
  #timer: Timer;

  constructor(clock: Clock, limit: RunLimit, onOver: (error: Error) => void) {
    const nowMs = clock.monotonicMs();
    this.#clock = clock;
    this.#limit = limit;
    this.#endsAtMs = nowMs + limit.limitMs;
    this.#lastMs = nowMs + Math.max(limit.limitMs, limit.boundMs);
    const look = (): void => {
      const leftMs = this.#endsAtMs - clock.monotonicMs();
      if (leftMs > 0) this.#timer = clock.setTimer(leftMs, look);
      else onOver(limit.onLimit());
    };
    this.#timer = clock.setTimer(limit.limitMs, look);
  }

  extend(): void {
    this.#endsAtMs = Math.min(this.#clock.monotonicMs() + this.#limit.limitMs, this.#lastMs);
  }

  end(): void {
    this.#clock.clearTimer(this.#timer);
  }
}

function isThenable<T>(value: unknown): value is PromiseLike<T> {
  return typeof (value as { then?: unknown } | null | undefined)?.then === 'function';
}
