import { BadInputError } from '../errors.js';

const MOST_KEPT = 256;
const TOO_MANY = `bot.steer(): more than ${MOST_KEPT} came before the handler listened. The rest is dropped: call ctx.onSteer first.`;

/** What others tell a handler while it runs. What comes before it listens is kept for it. */
export class Steering {
  readonly #listeners = new Set<(payload: unknown) => unknown>();
  readonly #failed: (error: unknown) => void;
  #kept: unknown[] = [];
  /** Whether it was told that more came than is kept. */
  #hasTold = false;
  #isClosed = false;

  /** `failed` hears what listeners throw, and, once, that more came than is kept. */
  constructor(failed: (error: unknown) => void) {
    this.#failed = failed;
  }

  /** Hears of all that comes, and of what came before, until the returned function is called. */
  on(listener: (payload: unknown) => unknown): () => void {
    const own = (payload: unknown): unknown => listener(payload);
    this.#listeners.add(own);
    const kept = this.#kept;
    this.#kept = [];
    for (const payload of kept) this.tell(payload);
    return () => this.#listeners.delete(own);
  }

  tell(payload: unknown): void {
    if (this.#isClosed) return;
    if (this.#listeners.size === 0) {
      this.#keep(payload);
      return;
    }
    for (const listener of [...this.#listeners]) void this.#call(listener, payload);
  }

  #keep(payload: unknown): void {
    if (this.#kept.length < MOST_KEPT) {
      this.#kept.push(payload);
      return;
    }
    if (this.#hasTold) return;
    this.#hasTold = true;
    this.#failed(new BadInputError(TOO_MANY));
  }

  /** What a handler does with a hint fails no message, but somebody hears of it. */
  async #call(listener: (payload: unknown) => unknown, payload: unknown): Promise<void> {
    try {
      await listener(payload);
    } catch (error) {
      this.#failed(error);
    }
  }

  close(): void {
    this.#isClosed = true;
    this.#listeners.clear();
    this.#kept = [];
  }
}
