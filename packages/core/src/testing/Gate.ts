import type { Clock } from '../time/clock.js';

/**
 * Lets what arrives pass at once while open. Shut, it keeps it; opened again, it lets it go in the order it came, one
 * macrotask apart, and nothing that arrives later overtakes it.
 */
export class Gate {
  readonly #clock: Clock;
  #state: 'open' | 'shut' | 'gone' = 'open';
  #kept: (() => void)[] = [];
  #leaving = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Whether what arrives now passes at once. */
  get isClear(): boolean {
    return this.#state === 'open' && this.#leaving === 0;
  }

  get isShut(): boolean {
    return this.#state === 'shut';
  }

  get isGone(): boolean {
    return this.#state === 'gone';
  }

  pass(run: () => void): void {
    if (this.isClear) run();
    else if (this.#state === 'open') this.#letGo(run);
    else if (this.#state === 'shut') this.#kept.push(run);
  }

  shut(): void {
    if (this.#state === 'open') this.#state = 'shut';
  }

  open(): void {
    if (this.#state !== 'shut') return;
    this.#state = 'open';
    const kept = this.#kept;
    this.#kept = [];
    for (const run of kept) this.#letGo(run);
  }

  /** Drops what it keeps and all that ever comes. */
  remove(): void {
    this.#state = 'gone';
    this.#kept = [];
  }

  #letGo(run: () => void): void {
    this.#leaving += 1;
    this.#clock.setTimer(0, () => {
      this.#leaving -= 1;
      if (this.#state === 'open') run();
      else if (this.#state === 'shut') this.#kept.push(run);
    });
  }
}
