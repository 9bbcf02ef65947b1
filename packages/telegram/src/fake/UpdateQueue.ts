import { conflict } from './api-error.js';

/** As the Bot API sends it: a number and one more member, which names its kind. */
export interface Update {
  readonly update_id: number;
  readonly [kind: string]: unknown;
}

/** What a bot gets only when it asks for it by name. */
const ASKED_FOR = ['chat_member', 'message_reaction', 'message_reaction_count'];
const MOST_AT_ONCE = 100;
const LONGEST_SECONDS = 50;

export interface Asked {
  readonly offset?: unknown;
  readonly limit?: unknown;
  readonly timeout?: unknown;
  readonly allowed_updates?: unknown;
}

interface Poll {
  readonly limit: number;
  answer(updates: readonly Update[]): void;
  end(error: Error): void;
}

/** The updates that wait for the bot, and whoever polls for them. */
export class UpdateQueue {
  /** In order. */
  #waiting: Update[] = [];
  #next = 1;
  #allowed: readonly string[] | undefined;
  #poll: Poll | undefined;
  /** How often a poll began while another one was open, each ending the earlier with 409. */
  overlaps = 0;
  /** The greatest number of polls that were open at once. */
  mostPolling = 0;

  get waiting(): readonly Update[] {
    return this.#waiting;
  }

  get polling(): number {
    return this.#poll === undefined ? 0 : 1;
  }

  get allowed(): readonly string[] | undefined {
    return this.#allowed;
  }

  /** Undefined for a kind that the bot did not ask for: it will never see it. */
  add(content: Readonly<Record<string, unknown>>): Update | undefined {
    const update: Update = { update_id: this.#next++, ...content };
    const kind = Object.keys(content)[0] ?? '';
    const isWanted = this.#allowed === undefined ? !ASKED_FOR.includes(kind) : this.#allowed.includes(kind);
    if (!isWanted) return undefined;
    this.#waiting.push(update);
    this.#serve();
    return update;
  }

  /** The kinds that are kept from now on. An empty list means the usual ones, none means as before. */
  allow(kinds: unknown): void {
    const list: unknown = typeof kinds === 'string' ? JSON.parse(kinds) : kinds;
    if (!Array.isArray(list)) return;
    this.#allowed = list.length === 0 ? undefined : list.map(String);
  }

  confirm(update: Update): void {
    this.#waiting = this.#waiting.filter((each) => each !== update);
  }

  dropAll(): void {
    this.#waiting = [];
  }

  /** Ends the open poll with 409. */
  interrupt(why: string): boolean {
    const poll = this.#poll;
    this.#poll = undefined;
    poll?.end(conflict(why));
    return poll !== undefined;
  }

  /** `gone` aborts when the client has hung up. */
  async poll(asked: Asked, gone: AbortSignal): Promise<readonly Update[]> {
    // One that was hung up a moment ago is told of in this turn of the event loop, and does not count.
    await new Promise((resolve) => setTimeout(resolve, 1));
    if (gone.aborted) return [];
    this.mostPolling = Math.max(this.mostPolling, this.polling + 1);
    if (this.interrupt('terminated by other getUpdates request; make sure that only one bot instance is running'))
      this.overlaps += 1;
    this.allow(asked.allowed_updates);
    this.#forget(numberOf(asked.offset, 0));
    const limit = Math.min(Math.max(numberOf(asked.limit, MOST_AT_ONCE), 1), MOST_AT_ONCE);
    const seconds = Math.min(numberOf(asked.timeout, 0), LONGEST_SECONDS);
    if (this.#waiting.length > 0 || seconds <= 0) return this.#waiting.slice(0, limit);
    return this.#open(limit, seconds * 1000, gone);
  }

  #open(limit: number, timeoutMs: number, gone: AbortSignal): Promise<readonly Update[]> {
    return new Promise((resolve, reject) => {
      const close = (): void => {
        clearTimeout(timer);
        if (this.#poll === poll) this.#poll = undefined;
      };
      const poll: Poll = {
        limit,
        answer: (updates) => {
          close();
          resolve(updates);
        },
        end: (error) => {
          close();
          reject(error);
        },
      };
      const timer = setTimeout(() => poll.answer([]), timeoutMs);
      gone.addEventListener('abort', () => poll.answer([]), { once: true });
      this.#poll = poll;
    });
  }

  #serve(): void {
    this.#poll?.answer(this.#waiting.slice(0, this.#poll.limit));
  }

  /** Below 0 it counts from the end. */
  #forget(offset: number): void {
    if (offset < 0) this.#waiting = this.#waiting.slice(offset);
    else this.#waiting = this.#waiting.filter(({ update_id }) => update_id >= offset);
  }
}

function numberOf(value: unknown, otherwise: number): number {
  const number = Number(value ?? otherwise);
  return Number.isFinite(number) ? number : otherwise;
}
