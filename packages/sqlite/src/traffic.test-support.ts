/** How long a push may be on its way. Longer means lost: time goes on without it. */
const LOST_AFTER_MS = 5_000;

/**
 * What is on its way between the processes of one mesh. Holds its clock meanwhile, so that on a virtual one requests,
 * answers and pushes take no time, though they are real.
 */
export class Traffic {
  /** To whom pushes were lost. Allowed by the protocol, but between processes that run none should be. */
  readonly lost: string[] = [];
  readonly #hold: () => () => void;
  /** Pushes that were sent, by their mark, and how to let go of each. */
  readonly #flying = new Map<string, { readonly instance: string; readonly land: () => void }>();
  /** Pushes heard of from the receiver first. */
  readonly #early = new Set<string>();
  /** How many subscriptions each instance has. */
  readonly #listening = new Map<string, number>();
  readonly #whenQuiet: (() => void)[] = [];
  #calls = 0;

  constructor(hold: () => () => void) {
    this.#hold = hold;
  }

  async during<T>(call: Promise<T>): Promise<T> {
    const release = this.#hold();
    this.#calls += 1;
    try {
      return await call;
    } finally {
      this.#calls -= 1;
      release();
      this.#tell();
    }
  }

  /** Resolves when no request is unanswered and no push on its way. */
  async quiet(): Promise<void> {
    while (this.#calls + this.#flying.size > 0) await new Promise<void>((resolve) => this.#whenQuiet.push(resolve));
  }

  begin(instance: string): void {
    this.#listening.set(instance, (this.#listening.get(instance) ?? 0) + 1);
  }

  /** One subscription fewer. Without any, nobody will say that a push arrived. */
  end(instance: string): void {
    const left = (this.#listening.get(instance) ?? 0) - 1;
    this.#listening.set(instance, left);
    if (left > 0) return;
    for (const flying of this.#flying.values()) if (flying.instance === instance) flying.land();
  }

  sent(push: string, instance: string): void {
    if (this.#early.delete(push) || (this.#listening.get(instance) ?? 0) < 1) return;
    const release = this.#hold();
    const patience = setTimeout(() => {
      this.lost.push(instance);
      land();
    }, LOST_AFTER_MS);
    const land = (): void => {
      clearTimeout(patience);
      this.#flying.delete(push);
      release();
      this.#tell();
    };
    this.#flying.set(push, { instance, land });
  }

  heard(push: string): void {
    const flying = this.#flying.get(push);
    if (flying === undefined) this.#early.add(push);
    else flying.land();
  }

  #tell(): void {
    for (const resolve of this.#whenQuiet.splice(0)) resolve();
  }
}
