import type { Link } from './Link.js';

/** One connection for several users: opened by the first that needs it, closed with the last. */
export class SharedLink {
  readonly #open: () => Promise<Link>;
  readonly #users = new Set<object>();
  #opening: Promise<Link> | undefined;

  /** `open` rejects when the server cannot be reached; it is called again for the next who asks. */
  constructor(open: () => Promise<Link>) {
    this.#open = open;
  }

  get(user: object): Promise<Link> {
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
    const link = await opening?.catch(() => undefined);
    await link?.close();
  }
}
