/** The least that keeps a chat's messages in order: a chain of promises for each chat, gone when its last one is done. */
export class PromiseChain {
  readonly #ends = new Map<string, Promise<void>>();

  async run(chat: string, task: () => Promise<void>): Promise<void> {
    const before = this.#ends.get(chat);
    const own = before === undefined ? task() : before.then(task, task);
    this.#ends.set(chat, own);
    try {
      await own;
    } finally {
      if (this.#ends.get(chat) === own) this.#ends.delete(chat);
    }
  }
}
