import type { Settings } from './options.js';
import { unavailable } from './refusals.js';
import { answerWithin } from './within.js';

/**
 * Steps outside the numbered batches: no order hangs on them, and made twice they do no harm. Each is made again until it
 * is answered, for less than a lease.
 */
export class Questions {
  readonly #settings: Settings;
  readonly #open = new Set<(error: Error) => void>();

  constructor(settings: Settings) {
    this.#settings = settings;
  }

  /** `what` names the public call. Rejects with `unavailable`, or with what `end` was given. */
  ask<T>(what: string, call: () => Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      const end = (error: Error): void => {
        this.#open.delete(end);
        reject(error);
      };
      this.#open.add(end);
      void this.#untilAnswered(call, () => this.#open.has(end)).then((answer) => {
        if (answer instanceof Error) end(unavailable(what, answer));
        else if (this.#open.delete(end)) resolve(answer);
      });
    });
  }

  /** Nobody waits any more. */
  end(error: Error): void {
    for (const end of [...this.#open]) end(error);
  }

  async #untilAnswered<T>(call: () => Promise<T>, isOpen: () => boolean): Promise<T | Error> {
    const { clock, timing } = this.#settings;
    const untilMs = clock.monotonicMs() + timing.trustMs;
    for (;;) {
      const answer = await answerWithin(clock, timing.beatMs, call);
      if (!(answer instanceof Error) || !isOpen() || clock.monotonicMs() >= untilMs) return answer;
      await new Promise<void>((resolve) => {
        clock.setTimer(timing.attemptMs * (0.25 + clock.random() / 2), resolve);
      });
    }
  }
}
