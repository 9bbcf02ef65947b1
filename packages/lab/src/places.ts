/** Lets as many tests of a file run at once as the machine can run in time. */
export class Places {
  readonly #waiting: (() => void)[] = [];
  #free: number;

  constructor(count: number) {
    this.#free = count;
  }

  /** Resolves when one is free. It is given back when disposed of. */
  async take(): Promise<Disposable> {
    if (this.#free === 0) await new Promise<void>((resolve) => this.#waiting.push(resolve));
    else this.#free -= 1;
    return {
      [Symbol.dispose]: () => {
        const next = this.#waiting.shift();
        if (next === undefined) this.#free += 1;
        else next();
      },
    };
  }
}
