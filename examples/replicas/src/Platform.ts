import type { Intake, Provider } from '@botmesh/core/spi';

/** The chat platform of this example: lines come in, answers go to `print`. All replicas are connected to it. */
export class Platform {
  readonly #print: (line: string) => Promise<void>;
  readonly #printed = new Set<string>();
  readonly #open = new Set<string>();
  #lines = 0;
  #whenAnswered: (() => void)[] = [];

  constructor(print: (line: string) => Promise<void>) {
    this.#print = print;
  }

  get unanswered(): number {
    return this.#open.size;
  }

  /** One replica's connection. */
  connect(): Provider & { intake: Intake | undefined } {
    return {
      name: 'lines',
      intake: undefined,
      start(intake) {
        this.intake = intake;
      },
      stop() {
        this.intake = undefined;
      },
      send: async (chat, { text }, { key }) => {
        // A message taken over is answered from the start: what its first replica had already sent has the same key.
        if (this.#printed.has(key)) return;
        this.#printed.add(key);
        await this.#print(`${chat}: ${text}`);
      },
    };
  }

  /** Hands a line to replicas until one has taken it in. The id keeps it from being taken in twice. */
  async deliver(chat: string, text: string, next: () => Promise<Intake>): Promise<void> {
    const id = `line ${++this.#lines}`;
    this.#open.add(id);
    for (;;) {
      const intake = await next();
      try {
        await intake({ id, chat, text });
        return;
      } catch (error) {
        if (!isPassing(error)) throw error;
      }
    }
  }

  settled(id: string | undefined): void {
    if (id !== undefined) this.#open.delete(id);
    if (this.#open.size > 0) return;
    for (const resolve of this.#whenAnswered) resolve();
    this.#whenAnswered = [];
  }

  /** Resolves when every line has its answer. */
  answered(): Promise<void> {
    if (this.#open.size === 0) return Promise.resolve();
    return new Promise((resolve) => this.#whenAnswered.push(resolve));
  }
}

/** Whether another replica may well take the line in. */
function isPassing(error: unknown): boolean {
  const code = (error as { code?: string }).code ?? '';
  return ['unavailable', 'timeout', 'stopped', 'not-started', 'lease-lost'].includes(code);
}
