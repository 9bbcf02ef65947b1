/**
 * Keeps what one process does in a chat apart, whichever order it goes by: the mesh's, or, while the backend is away, its
 * own. First come, first served.
 */
export class OneByOne {
  /** By chat, the end of all stays so far. Nothing of a chat that nobody is in. */
  readonly #last = new Map<string, Promise<unknown>>();

  /**
   * Resolves when all that entered `chat` before have left, with what ends this stay. So does the end of `signal`: what
   * lost its turn keeps nobody out, and is kept out by nobody.
   */
  async enter(chat: string, signal: AbortSignal): Promise<() => void> {
    const before = this.#last.get(chat);
    let leave = (): void => {};
    const left = new Promise<void>((resolve) => (leave = resolve));
    if (signal.aborted) leave();
    else signal.addEventListener('abort', leave, { once: true });
    const all = Promise.all([before, left]);
    this.#last.set(chat, all);
    void all.then(() => {
      if (this.#last.get(chat) === all) this.#last.delete(chat);
    });
    await Promise.race([before ?? undefined, left]);
    return () => {
      signal.removeEventListener('abort', leave);
      leave();
    };
  }
}
