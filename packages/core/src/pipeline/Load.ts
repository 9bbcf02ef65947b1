/** How many messages this replica has in hand, and word of when it has none. */
export class Load {
  /** Taken in or taken over, not yet granted. */
  waiting = 0;
  /** Granted and not ended. */
  running = 0;
  #watchers: { isOver: () => boolean; resolve: () => void }[] = [];

  /** Resolves when no turn runs. */
  quiet(): Promise<void> {
    return this.#when(() => this.running === 0);
  }

  /** Resolves when no message is in hand. */
  empty(): Promise<void> {
    return this.#when(() => this.running === 0 && this.waiting === 0);
  }

  /** Tells those who watch. Call after a change for the less. */
  changed(): void {
    if (this.#watchers.length === 0) return;
    const over = this.#watchers.filter((watcher) => watcher.isOver());
    this.#watchers = this.#watchers.filter((watcher) => !over.includes(watcher));
    for (const watcher of over) watcher.resolve();
  }

  #when(isOver: () => boolean): Promise<void> {
    if (isOver()) return Promise.resolve();
    return new Promise((resolve) => this.#watchers.push({ isOver, resolve }));
  }
}
