import { type Lead, LifecycleError } from '@botmesh/core/spi';
import type { SocketClient } from './bolt.js';

const CLOSE_MS = 3_000;
const FIRST_DELAY_MS = 1_000;
const LONGEST_DELAY_MS = 30_000;

/**
 * The one connection of Socket Mode. Bolt's client opens and reopens it; this lets it do so only under the leadership, and
 * closes it for sure before the leadership goes.
 */
export class Socket {
  readonly #client: SocketClient;
  readonly #log: (line: string) => void;
  #lead: Lead | undefined;
  #isReconnecting = false;
  #again: NodeJS.Timeout | undefined;
  #delayMs = FIRST_DELAY_MS;

  constructor(client: SocketClient, log: (line: string) => void) {
    this.#client = client;
    this.#log = log;
  }

  /** From here on the client connects only with leave. */
  attach(): void {
    const client = this.#client;
    // Between the address of a connection and the connection: what throws here stops the client from opening it.
    client.on('authenticated', () => this.#check());
    client.on('connected', () => {
      this.#delayMs = FIRST_DELAY_MS;
    });
    client.on('reconnecting', () => {
      this.#isReconnecting = true;
    });
    const start = client.start.bind(client);
    client.start = () => {
      const isOwn = this.#isReconnecting;
      this.#isReconnecting = false;
      return isOwn ? this.#reconnect(start) : start();
    };
  }

  /** `connect` begins the connection and resolves when it is there. */
  async start(lead: Lead | undefined, connect: () => Promise<unknown>): Promise<unknown> {
    this.#lead = lead ?? { signal: new AbortController().signal, assertHeld() {} };
    this.#isReconnecting = false;
    this.#check();
    return connect();
  }

  /** Resolves when the connection is closed, or when the other end is given up. */
  async stop(disconnect: () => Promise<unknown>): Promise<void> {
    if (this.#lead === undefined) return;
    this.#lead = undefined;
    clearTimeout(this.#again);
    let timer: NodeJS.Timeout | undefined;
    const limit = new Promise<'late'>((resolve) => {
      timer = setTimeout(() => resolve('late'), CLOSE_MS);
    });
    const closed = new Promise<void>((resolve) => this.#client.once('disconnected', resolve));
    await disconnect();
    // Asked a second time, the client does not wait for the other end.
    if ((await Promise.race([closed, limit])) === 'late') void this.#client.disconnect();
    clearTimeout(timer);
  }

  #check(): void {
    if (this.#lead === undefined) {
      throw new LifecycleError('stopped', 'This replica is not the one that may connect to Slack.');
    }
    this.#lead.assertHeld();
  }

  /** Nobody waits for a connection that the client opens by itself: a failure is told and tried again, and rejects nowhere. */
  async #reconnect(start: () => Promise<unknown>): Promise<unknown> {
    if (this.#lead === undefined || this.#client.websocket?.isActive() === true) return undefined;
    try {
      return await start();
    } catch (error) {
      if (this.#lead === undefined) return undefined;
      const what = error instanceof Error ? error.message : 'the connection was closed';
      this.#log(`botmesh: Slack: the socket could not be opened again (${what}). Next try in ${this.#delayMs} ms.`);
      this.#again = setTimeout(() => void this.#reconnect(start), this.#delayMs);
      this.#delayMs = Math.min(2 * this.#delayMs, LONGEST_DELAY_MS);
      return undefined;
    }
  }
}
