import type { ChatTurn } from '../coordination/types.js';
import { DeliveryError, LeaseLostError, RateLimitedError } from '../errors.js';
import type { Provider, Reply, SendContext } from '../providers/provider.js';
import type { Clock } from '../time/clock.js';
import type { Pacer } from './Pacer.js';
import { pause } from './pause.js';
import { hashOf, planSend, type SendRecord, type SendState, type UnknownSends } from './sends.js';
import { Watched } from './Watched.js';

const MOST_WAITS = 5;
const LONGEST_WAIT_MS = 60_000;

/** What the replies of an attempt need of the Bot, and of the attempts before. */
export interface Lane {
  readonly provider: Provider;
  readonly clock: Clock;
  readonly pacer: Pacer | undefined;
  /** Names the replies, in every attempt at the same messages the same. */
  readonly replyName: string;
  /** What an earlier attempt at the same messages sent. */
  readonly prior: readonly SendRecord[] | undefined;
  readonly unknownSends: UnknownSends;
  /** Whether each reply is put on record before it leaves. */
  readonly isRecorded: boolean;
  record(log: readonly SendRecord[]): Promise<void>;
  /** Hears of a reply of which nobody knows whether it left before. */
  unknown(reply: Reply, did: 'resent' | 'dropped'): void;
}

/** Most messages have one reply or none. */
const NONE: readonly never[] = [];

/** A reply, and what became of it. */
interface Entry {
  readonly reply: Reply;
  state: SendState;
}

/**
 * The replies of one attempt: each leaves when the one before has left, and only while the turn is held. Others of the
 * chat wait with it when the platform asks for time; other chats do not.
 */
export class Outbox {
  readonly #lane: Lane;
  readonly #chat: string;
  readonly #hold: Hold;
  /** Undefined iff nothing is on its way. */
  #last: Promise<void> | undefined;
  /** In the order of the calls: the n-th is compared with the n-th of an earlier attempt. */
  #entries: readonly Entry[] = NONE;
  /** How many replies of error hooks there were; undefined while the handlers run. */
  #ofHooks: number | undefined;
  #attempt = 0;
  #failed: { delivery: Watched<void>; error: unknown }[] | undefined;
  #isClosed = false;
  #closedBy: Error | undefined;

  constructor(lane: Lane, chat: string, hold: Hold) {
    this.#lane = lane;
    this.#chat = chat;
    this.#hold = hold;
  }

  /**
   * Sends a reply after all before it. One that fails takes along those already queued behind it. Rejects with what the
   * provider threw, or with LeaseLostError once the turn is lost or over.
   */
  send(reply: Reply): Watched<void> {
    const before = this.#last;
    const deliver = this.#prepare(reply);
    const sent = before === undefined ? deliver() : before.then(deliver);
    this.#last = sent;
    const delivery = new Watched(sent);
    sent.then(
      () => {
        if (this.#last === sent) this.#last = undefined;
      },
      (error: unknown) => {
        if (this.#last === sent) this.#last = undefined;
        this.#failed ??= [];
        this.#failed.push({ delivery, error });
      },
    );
    return delivery;
  }

  /** What is sent from now on is of the hooks that hear of a failed attempt: in the next one they send anew. */
  beginHooks(attempt: number): void {
    this.#ofHooks ??= 0;
    this.#attempt = attempt;
  }

  /** What the handlers sent, for the next attempt. */
  get log(): readonly SendRecord[] {
    return this.#entries.map(({ reply, state }) => [state, hashOf(reply)]);
  }

  /** True when nothing is on its way and nothing failed: `flush` would change nothing. */
  get isClear(): boolean {
    return this.#last === undefined && this.#failed === undefined;
  }

  /** Resolves when nothing is on its way. Throws the first error of a reply that nobody awaited, so it is not lost. */
  async flush(): Promise<void> {
    while (this.#last !== undefined) await this.#last.catch(() => {});
    const failed = this.#failed;
    this.#failed = undefined;
    for (const { delivery, error } of failed ?? []) if (!delivery.isSeen) throw error;
  }

  /** Nothing leaves any more: what is still to come rejects with `reason`. */
  close(reason?: Error): void {
    this.#closedBy ??= reason;
    this.#isClosed = true;
  }

  #prepare(reply: Reply): () => Promise<void> {
    const { isRecorded, prior, replyName } = this.#lane;
    if (this.#ofHooks !== undefined) {
      const key = `${replyName}:e${this.#attempt}:${this.#ofHooks++}`;
      return () => this.#deliver(reply, key);
    }
    const at = this.#entries.length;
    const entry: Entry = { reply, state: 'failed' };
    this.#entries = at === 0 ? [entry] : [...this.#entries, entry];
    if (prior === undefined && !isRecorded) return () => this.#deliver(reply, `${replyName}:${at}`, entry);
    return () => this.#deliverOnce(entry, at);
  }

  /** Looks first at what is on record of it. */
  async #deliverOnce(entry: Entry, at: number): Promise<void> {
    const { prior, isRecorded, replyName, unknownSends } = this.#lane;
    const { reply } = entry;
    let key = `${replyName}:${at}`;
    const before = prior?.[at];
    if (before !== undefined) {
      const hash = hashOf(reply);
      const plan = planSend(before, hash, unknownSends);
      if (plan === 'skip') entry.state = 'sent';
      if (plan === 'drop') entry.state = 'unknown';
      if (plan === 'drop' || plan === 'resend') this.#lane.unknown(reply, plan === 'drop' ? 'dropped' : 'resent');
      if (plan === 'skip' || plan === 'drop') return;
      // The platform would take it for the reply before.
      if (plan === 'other') key += `:${hash}`;
    }
    if (!isRecorded) return this.#deliver(reply, key, entry);
    entry.state = 'unknown';
    this.#refuseLate(entry);
    await this.#lane.record(this.log);
    await this.#deliver(reply, key, entry);
  }

  async #deliver(reply: Reply, key: string, entry?: Entry): Promise<void> {
    const { clock, pacer, provider } = this.#lane;
    const context = new Sending(this.#hold, key);
    for (let waits = 0; ; waits++) {
      this.#refuseLate(entry);
      if (pacer !== undefined) {
        await pacer.wait(this.#chat, this.#hold.signal);
        this.#refuseLate(entry);
      }
      try {
        if (entry !== undefined) entry.state = 'unknown';
        await provider.send(this.#chat, reply, context);
        if (entry !== undefined) entry.state = 'sent';
        return;
      } catch (error) {
        const isKnown = error instanceof DeliveryError || error instanceof RateLimitedError;
        if (isKnown && entry !== undefined) entry.state = 'failed';
        const waitMs = isKnown ? error.retryAfterMs : undefined;
        if (waitMs === undefined || waitMs > LONGEST_WAIT_MS || waits === MOST_WAITS) throw error;
        if (error instanceof RateLimitedError) await pacer?.hold(this.#chat, error);
        await pause(clock, waitMs, this.#hold.signal);
      }
    }
  }

  /** Nothing leaves once the turn is lost or over. */
  #refuseLate(entry?: Entry): void {
    try {
      if (this.#isClosed) {
        throw this.#closedBy ?? new LeaseLostError('stopped', 'this reply came after its message was handled');
      }
      this.#hold.turn.assertHeld();
    } catch (error) {
      if (entry?.state === 'unknown') entry.state = 'failed';
      throw error;
    }
  }
}

/** What lets a reply out, and calls it back. */
export interface Hold {
  readonly turn: ChatTurn;
  readonly signal: AbortSignal;
}

/** Reads the hold only when asked: few providers need the signal, and it costs more than the rest. */
class Sending implements SendContext {
  readonly key: string;
  readonly #hold: Hold;

  constructor(hold: Hold, key: string) {
    this.#hold = hold;
    this.key = key;
  }

  get signal(): AbortSignal {
    return this.#hold.signal;
  }

  get fence(): number {
    return this.#hold.turn.fence;
  }
}
