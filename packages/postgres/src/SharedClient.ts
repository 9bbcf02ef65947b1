import type { PostgresClient } from './clients/client.js';

/** One client for several users: opened by the first that needs it, closed with the last. */
export class SharedClient {
  readonly #client: PostgresClient;
  readonly #users = new Set<object>();

  constructor(client: PostgresClient) {
    this.#client = client;
  }

  get wakeUp(): PostgresClient['wakeUp'] {
    return this.#client.wakeUp;
  }

  /** Rejects when the server cannot be used; tried anew for the next who asks. */
  async get(user: object): Promise<PostgresClient> {
    this.#users.add(user);
    await this.#client.open();
    return this.#client;
  }

  /** `user` needs it no more. A later `get` opens it again. */
  async release(user: object): Promise<void> {
    if (this.#users.delete(user) && this.#users.size === 0) await this.#client.close();
  }
}
