import { type Clock, elapsedMs, instant, type Timer } from '../time/clock.js';

/** Whether the backend counts as down: it does when trust ran out and no answer came soon after. */
export class Reachability {
  readonly #clock: Clock;
  readonly #attemptMs: number;
  readonly #onDown: () => void;
  #isDown = false;
  #timer: Timer | undefined;
  #whenUp: (() => void)[] = [];

  constructor(clock: Clock, attemptMs: number, onDown: () => void) {
    this.#clock = clock;
    this.#attemptMs = attemptMs;
    this.#onDown = onDown;
  }

  get isDown(): boolean {
    return this.#isDown;
  }

  /** Unless an answer comes soon, the backend is down. */
  expectAnswer(): void {
    if (!this.#isDown && this.#timer === undefined) this.#judgeLater(false);
  }

  /** An answer that restored trust. True when it ends an outage. */
  answered(): boolean {
    const wasDown = this.#isDown;
    this.#isDown = false;
    this.stop();
    this.wake();
    return wasDown;
  }

  /** Resolves with the next answer, or when nothing is to be expected any more. */
  nextAnswer(): Promise<void> {
    return new Promise((resolve) => this.#whenUp.push(resolve));
  }

  /** Forgets the outage: the seat is over, or begins anew. */
  reset(): void {
    this.#isDown = false;
    this.wake();
  }

  wake(): void {
    for (const wake of this.#whenUp.splice(0)) wake();
  }

  stop(): void {
    if (this.#timer !== undefined) this.#clock.clearTimer(this.#timer);
    this.#timer = undefined;
  }

  /** A process that was paused meanwhile has not given the backend its time to answer: once more. */
  #judgeLater(isSecond: boolean): void {
    const since = instant(this.#clock);
    this.#timer = this.#clock.setTimer(this.#attemptMs, () => {
      this.#timer = undefined;
      const wasPaused = elapsedMs(this.#clock, since) > 2 * this.#attemptMs;
      if (wasPaused && !isSecond) {
        this.#judgeLater(true);
        return;
      }
      this.#isDown = true;
      this.#onDown();
    });
  }
}
