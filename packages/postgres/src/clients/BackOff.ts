const FIRST_MS = 25;

/**
 * Pauses between tries: none before the first, then longer ones with chance in them, up to a limit. What breaks again at
 * once has not succeeded: its next try is paused for as well.
 */
export class BackOff {
  readonly #limitMs: number;
  #tries = 0;
  #succeededAtMs: number | undefined;
  #stopped = false;
  #wake: (() => void) | undefined;

  constructor(limitMs: number) {
    this.#limitMs = limitMs;
  }

  succeeded(): void {
    this.#succeededAtMs = performance.now();
  }

  /** Resolves after the pause that is due, or when stopped. */
  async wait(): Promise<void> {
    const lastedMs = this.#succeededAtMs === undefined ? 0 : performance.now() - this.#succeededAtMs;
    this.#succeededAtMs = undefined;
    if (lastedMs > this.#limitMs) this.#tries = 0;
    const tries = this.#tries++;
    if (tries === 0 || this.#stopped) return;
    const fullMs = Math.min(FIRST_MS * 2 ** tries, this.#limitMs);
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, fullMs * (0.5 + Math.random() / 2));
      this.#wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }

  stop(): void {
    this.#stopped = true;
    this.#wake?.();
  }
}
