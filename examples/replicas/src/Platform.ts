import type { IncomingMessage, Intake, Provider } from '@botmesh/core/spi';

/** The chat platform of this example: lines come in, answers go to `print`. All replicas are connected to it. */
export class Platform {
  readonly #print: (line: string) => Promise<void>;
  readonly #printed = new Set<string>();
  readonly #open = new Set<string>();
  /** The last line of each chat that no replica has taken in yet. */
  readonly #handing = new Map<string, Promise<void>>();
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

  /**
   * Hands a line to replicas until one has taken it in, after the lines of its chat that came before. The id keeps it
   * from being taken in twice.
   */
  deliver(chat: string, text: string, next: () => Promise<Intake>): Promise<void> {
    const message = { id: `line ${++this.#lines}`, chat, text };
    this.#open.add(message.id);
    const before = this.#handing.get(chat) ?? Promise.resolve();
    const delivered = before.then(() => handOver(message, next));
    const ended = delivered
      .catch(() => {})
      .then(() => {
        if (this.#handing.get(chat) === ended) this.#handing.delete(chat);
      });
    this.#handing.set(chat, ended);
    return delivered;
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

async function handOver(message: IncomingMessage, next: () => Promise<Intake>): Promise<void> {
  for (;;) {
    const intake = await next();
    try {
      await intake(message);
      return;
    } catch (error) {
      if (!isPassing(error)) throw error;
    }
  }
}

/** Whether another replica may well take the line in. */
function isPassing(error: unknown): boolean {
  const code = (error as { code?: string }).code ?? '';
  return ['unavailable', 'timeout', 'stopped', 'not-started', 'lease-lost'].includes(code);
}
