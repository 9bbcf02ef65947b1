import type { Mailroom } from '../coordination/types.js';
import type { RateLimitedError } from '../errors.js';
import type { Clock } from '../time/clock.js';
import { pause } from './pause.js';

/** How fast sends may leave. */
export interface Rate {
  readonly perSecond: number;
  /** How many may leave at once after a silence. Default 1. */
  readonly burst?: number;
}

export interface Rates {
  /** Over all chats of the bot's account. */
  readonly account?: Rate;
  /** Over one chat. */
  readonly chat?: Rate;
}

/** What a platform counts sends by. */
export interface Counted {
  /** The account that sends to a chat. */
  readonly accountOf: (chat: string) => string;
  /** Where its messages are counted: the channel of a thread. */
  readonly placeOf: (chat: string) => string;
}

const MOST_KEPT = 10_000;

/** Keeps sends to rates: together with all replicas where the coordinator has a mailroom, else within this process. */
export class Pacer {
  readonly #clock: Clock;
  readonly #mail: Mailroom | undefined;
  readonly #counted: Counted;
  readonly #rates: Rates;
  /** When the next slot of a pace is due, by the monotonic clock: for a process alone. */
  readonly #dueMs = new Map<string, number>();

  constructor(clock: Clock, mail: Mailroom | undefined, counted: Counted, rates: Rates) {
    this.#clock = clock;
    this.#mail = mail;
    this.#counted = counted;
    this.#rates = rates;
  }

  /** Takes the next slot, and resolves when it has come, or when `signal` aborts. Never rejects. */
  async wait(chat: string, signal: AbortSignal): Promise<void> {
    const waits = await Promise.all(this.#paces(chat).map(([name, rate]) => this.#take(name, rate, 0)));
    const waitMs = Math.max(0, ...waits);
    if (waitMs > 0) await pause(this.#clock, waitMs, signal);
  }

  /** Gives no slot to anybody while the platform takes nothing. Never rejects. */
  async hold(chat: string, { scope, retryAfterMs }: RateLimitedError): Promise<void> {
    const name = scope === 'chat' ? this.#ofChat(chat) : this.#counted.accountOf(chat);
    const rate = this.#rates[scope];
    if (rate !== undefined) await this.#take(name, rate, retryAfterMs);
  }

  #paces(chat: string): [name: string, rate: Rate][] {
    const { account, chat: ofChat } = this.#rates;
    const paces: [string, Rate][] = [];
    if (account !== undefined) paces.push([this.#counted.accountOf(chat), account]);
    if (ofChat !== undefined) paces.push([this.#ofChat(chat), ofChat]);
    return paces;
  }

  #ofChat(chat: string): string {
    return `${this.#counted.accountOf(chat)}:${this.#counted.placeOf(chat)}`;
  }

  async #take(name: string, { perSecond, burst = 1 }: Rate, pauseMs: number): Promise<number> {
    const costMs = 1_000 / perSecond;
    const burstMs = costMs * (burst - 1);
    if (this.#mail === undefined) return this.#takeAlone(name, costMs, burstMs, pauseMs);
    // While the backend is away nobody keeps a pace, nor a turn for long.
    return this.#mail.pace(name, { costMs, burstMs, pauseMs }).catch(() => 0);
  }

  #takeAlone(name: string, costMs: number, burstMs: number, pauseMs: number): number {
    const nowMs = this.#clock.monotonicMs();
    if (this.#dueMs.size > MOST_KEPT)
      for (const [each, dueMs] of this.#dueMs) if (dueMs <= nowMs) this.#dueMs.delete(each);
    const [waitMs, dueMs] = nextSlot(this.#dueMs.get(name) ?? nowMs, nowMs, costMs, burstMs, pauseMs);
    this.#dueMs.set(name, dueMs);
    return waitMs;
  }
}

/** The same sum as the stores do: how long to wait, and when the slot after this one is due. */
export function nextSlot(
  dueMs: number,
  nowMs: number,
  costMs: number,
  burstMs: number,
  pauseMs: number,
): [waitMs: number, dueMs: number] {
  const fromMs = Math.max(dueMs, nowMs);
  if (pauseMs > 0) return [pauseMs, Math.max(fromMs, nowMs + pauseMs + burstMs)];
  return [Math.max(0, fromMs - burstMs - nowMs), fromMs + costMs];
}
