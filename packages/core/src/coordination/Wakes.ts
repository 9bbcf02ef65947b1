import type { Clock } from '../time/clock.js';
import type { Push, Store } from './store.js';
import { answerWithin } from './within.js';

export interface WakesOptions {
  readonly clock: Clock;
  readonly store: Store;
  readonly limitMs: number;
  readonly onPush: (push: Push) => void;
  readonly onDegraded: () => void;
}

/** More answered heartbeats in a row than this without their ping mean that pushes do not arrive. */
const PINGS_MISSED = 2;

/** Hears the pushes for one instance, and notices when they stay away. */
export class Wakes {
  readonly #options: WakesOptions;
  #unsubscribe: (() => Promise<void>) | undefined;
  /** Counts openings and closings: one that was overtaken keeps nothing. */
  #opening = 0;
  #missed = 0;

  constructor(options: WakesOptions) {
    this.#options = options;
  }

  /** Whether grants are likely to be heard of by heartbeats only. */
  get areDeaf(): boolean {
    return this.#missed > PINGS_MISSED;
  }

  /** Subscribes unless that is done; an error when it came to nothing. */
  async open(instance: string): Promise<Error | undefined> {
    this.#missed = 0;
    if (this.#unsubscribe !== undefined) return undefined;
    const opening = ++this.#opening;
    const subscribed = await this.#subscribe(instance);
    if (subscribed instanceof Error) return subscribed;
    if (opening === this.#opening) this.#unsubscribe = subscribed;
    else await subscribed().catch(() => {});
    return undefined;
  }

  heardPing(): void {
    this.#missed = 0;
  }

  /** A heartbeat was answered: its ping is due. Where it stays away, subscribe again. */
  expectPing(instance: string): void {
    this.#missed += 1;
    if (this.#missed !== PINGS_MISSED + 1) return;
    this.#options.onDegraded();
    void this.#renew(instance);
  }

  async close(): Promise<void> {
    this.#opening += 1;
    const unsubscribe = this.#unsubscribe;
    this.#unsubscribe = undefined;
    await unsubscribe?.().catch(() => {});
  }

  async #subscribe(instance: string): Promise<(() => Promise<void>) | Error> {
    const { clock, limitMs, onPush, store } = this.#options;
    const subscribing = store.subscribe(instance, (push) => onPush(push));
    const answer = await answerWithin(clock, limitMs, () => subscribing);
    // Given up, it may come about all the same: nobody would ever end it.
    if (answer instanceof Error) void subscribing.then((late) => late()).catch(() => {});
    return answer;
  }

  async #renew(instance: string): Promise<void> {
    const former = this.#unsubscribe;
    const renewed = await this.#subscribe(instance);
    if (renewed instanceof Error) return;
    // Closed meanwhile: the new one goes as well.
    const isOpen = this.#unsubscribe === former && former !== undefined;
    if (isOpen) this.#unsubscribe = renewed;
    await (isOpen ? former : renewed)().catch(() => {});
  }
}
