import type { Connection } from './clients/connection.js';

/** One connection for several users: opened by the first that needs it, closed with the last. */
export class SharedConnection {
  readonly #open: () => Promise<Connection>;
  readonly #users = new Set<object>();
  #opening: Promise<Connection> | undefined;

  /** `open` rejects when the server cannot be reached; it is called again for the next who asks. */
  constructor(open: () => Promise<Connection>) {
    this.#open = open;
  }

  get(user: object): Promise<Connection> {
    this.#users.add(user);
    if (this.#opening === undefined) {
      const opening = this.#open();
      this.#opening = opening;
      opening.catch(() => {
        if (this.#opening === opening) this.#opening = undefined;
      });
    }
    return this.#opening;
  }

  /** `user` needs it no more. A later `get` opens it again. */
  async release(user: object): Promise<void> {
    if (!this.#users.delete(user) || this.#users.size > 0) return;
    const opening = this.#opening;
    this.#opening = undefined;
    const connection = await opening?.catch(() => undefined);
    await connection?.close();
  }
}
