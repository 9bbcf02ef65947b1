const MOST_KEPT = 256;

/** What others tell a handler while it runs. What comes before it listens is kept for it. */
export class Steering {
  readonly #listeners = new Set<(payload: unknown) => unknown>();
  #kept: unknown[] = [];
  #isClosed = false;

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
      if (this.#kept.length < MOST_KEPT) this.#kept.push(payload);
      return;
    }
    for (const listener of [...this.#listeners]) callQuietly(listener, payload);
  }

  close(): void {
    this.#isClosed = true;
    this.#listeners.clear();
    this.#kept = [];
  }
}

function callQuietly(listener: (payload: unknown) => unknown, payload: unknown): void {
  try {
    const result = listener(payload);
    if (result instanceof Promise) result.catch(() => {});
  } catch {
    // The handler's own trouble: what it does with a hint fails no message.
  }
}
