import { judge, unavailable } from './failures.js';
import type { Dialer, DialSettings, Link } from './link.js';
import { within } from './within.js';

/** So many connections at most: a batch, a heartbeat and what is asked beside them need not wait for each other. */
const MOST = 4;
/** How long a connection beyond the first is kept when nobody needs it. */
const IDLE_MS = 30_000;
/** How long none is added after one could not be had. */
const CALM_MS = 1_000;

interface Waiter {
  readonly give: (link: Link) => void;
  readonly fail: (error: unknown) => void;
}

/** Runs statements, each on a connection that is free, and makes connections as they are needed. */
export class Calls {
  readonly #dialer: Dialer;
  readonly #settings: DialSettings;
  readonly #idle: { readonly link: Link; readonly sinceMs: number }[] = [];
  readonly #busy = new Set<Link>();
  readonly #waiting: Waiter[] = [];
  #dialing = 0;
  #calmUntilMs = 0;
  /** Counts how often all connections were dropped: one that was begun before is not used. */
  #life = 0;
  #sweep: NodeJS.Timeout | undefined;
  #isClosed = true;

  constructor(dialer: Dialer, settings: DialSettings) {
    this.#dialer = dialer;
    this.#settings = settings;
  }

  /** The first connection. Rejects with whatever came of it; then nothing is open. */
  async open(): Promise<void> {
    const life = ++this.#life;
    const link = await this.#fresh();
    if (life !== this.#life) {
      link.destroy();
      throw new Error('the connection was closed while it was made');
    }
    this.#isClosed = false;
    this.#sweep ??= setInterval(() => this.#dropIdle(), IDLE_MS / 2).unref();
    this.#free(link);
  }

  /** @throws CoordinationUnavailableError, or what the server said, without its details */
  async run(use: (link: Link) => Promise<string | null>, limitMs = this.#settings.timeoutMs): Promise<string | null> {
    const { where } = this.#dialer;
    if (this.#isClosed) throw unavailable(`The connection to ${where} was closed.`);
    const start = performance.now();
    let link: Link;
    try {
      link = await this.#take(limitMs);
    } catch (cause) {
      throw judge(where, cause).error;
    }
    try {
      const answer = await within(limitMs - (performance.now() - start), 'a statement', use(link));
      this.#busy.delete(link);
      this.#free(link);
      return answer;
    } catch (cause) {
      const { error, link: state } = judge(where, cause);
      const isUsable = this.#busy.delete(link);
      if (state === 'kept' && isUsable) this.#free(link);
      else link.destroy();
      if (state === 'elsewhere') this.#dropAll();
      throw error;
    }
  }

  close(): void {
    this.#isClosed = true;
    this.#life += 1;
    clearInterval(this.#sweep);
    this.#sweep = undefined;
    this.#dropAll();
    for (const link of [...this.#busy]) {
      this.#busy.delete(link);
      link.destroy();
    }
    for (const waiter of this.#waiting.splice(0)) waiter.fail(new Error('the connection was closed'));
  }

  #take(limitMs: number): Promise<Link> {
    const found = this.#idle.pop();
    if (found !== undefined) {
      this.#busy.add(found.link);
      return Promise.resolve(found.link);
    }
    const taken = new Promise<Link>((resolve, reject) => {
      const waiter: Waiter = {
        give: (link) => {
          clearTimeout(timer);
          this.#busy.add(link);
          resolve(link);
        },
        fail: (error) => {
          clearTimeout(timer);
          reject(error);
        },
      };
      const timer = setTimeout(() => {
        this.#waiting.splice(this.#waiting.indexOf(waiter), 1);
        reject(new Error(`no connection was free within ${Math.round(limitMs)} ms`));
      }, limitMs);
      this.#waiting.push(waiter);
    });
    this.#grow();
    return taken;
  }

  #free(link: Link): void {
    if (this.#isClosed) {
      link.destroy();
      return;
    }
    const waiter = this.#waiting.shift();
    if (waiter !== undefined) waiter.give(link);
    else this.#idle.push({ link, sinceMs: performance.now() });
  }

  /** Another connection, where somebody waits who would get it. */
  #grow(): void {
    const open = this.#idle.length + this.#busy.size;
    if (open + this.#dialing >= MOST || this.#dialing >= this.#waiting.length) return;
    if (open > 0 && performance.now() < this.#calmUntilMs) return;
    void this.#dial();
  }

  /** Never rejects. */
  async #dial(): Promise<void> {
    const life = this.#life;
    this.#dialing += 1;
    try {
      const link = await this.#fresh().finally(() => (this.#dialing -= 1));
      if (life === this.#life) this.#free(link);
      else link.destroy();
    } catch (error) {
      if (life !== this.#life) return;
      this.#calmUntilMs = performance.now() + CALM_MS;
      // Where others are at work, who waits may still get one of them.
      if (this.#busy.size > 0 || this.#dialing > 0) return;
      for (const waiter of this.#waiting.splice(0)) waiter.fail(error);
    }
    if (life === this.#life) this.#grow();
  }

  /** One that drops out by itself when it ends. */
  async #fresh(): Promise<Link> {
    // It may end before the promise of it is heard here.
    let link: Link | undefined;
    let isEnded = false;
    link = await this.#dialer.dial({
      onEnd: () => {
        isEnded = true;
        if (link !== undefined) this.#ended(link);
      },
    });
    if (!isEnded) return link;
    link.destroy();
    throw new Error('the connection broke while it was made');
  }

  #ended(link: Link): void {
    const at = this.#idle.findIndex((one) => one.link === link);
    if (at >= 0) this.#idle.splice(at, 1);
    this.#busy.delete(link);
    link.destroy();
    this.#grow();
  }

  #dropIdle(): void {
    const now = performance.now();
    // Taken from the end: the first ones are those that nobody needs.
    while (this.#idle.length + this.#busy.size > 1 && (this.#idle[0]?.sinceMs ?? now) < now - IDLE_MS) {
      this.#idle.shift()!.link.destroy();
    }
  }

  #dropAll(): void {
    for (const { link } of this.#idle.splice(0)) link.destroy();
  }
}
