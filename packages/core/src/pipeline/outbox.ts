import type { ChatTurn } from '../coordination/types.js';
import { DeliveryError, LeaseLostError } from '../errors.js';
import type { Provider, Reply, SendContext } from '../providers/provider.js';
import type { Clock } from '../time/clock.js';
import { pause } from './pause.js';
import { Watched } from './Watched.js';

const MOST_WAITS = 5;
const LONGEST_WAIT_MS = 60_000;

/**
 * The replies of one attempt: each leaves when the one before has left, and only while the turn is held. Others of the
 * chat wait with it when the platform asks for time; other chats do not.
 */
export class Outbox {
  readonly #provider: Provider;
  readonly #clock: Clock;
  readonly #chat: string;
  readonly #hold: Hold;
  readonly #name: string;
  /** Undefined iff nothing is on its way. */
  #last: Promise<void> | undefined;
  #sent = 0;
  #failed: { delivery: Watched<void>; error: unknown }[] | undefined;
  #isClosed = false;
  #closedBy: Error | undefined;

  /** `name` is the message's, the same in every attempt. */
  constructor(provider: Provider, clock: Clock, chat: string, hold: Hold, name: string) {
    this.#provider = provider;
    this.#clock = clock;
    this.#chat = chat;
    this.#hold = hold;
    this.#name = name;
  }

  /**
   * Sends a reply after all before it. One that fails takes along those already queued behind it. Rejects with what the
   * provider threw, or with LeaseLostError once the turn is lost or over.
   */
  send(reply: Reply): Watched<void> {
    const key = `${this.#name}:${this.#sent++}`;
    const before = this.#last;
    const sent = before === undefined ? this.#deliver(reply, key) : before.then(() => this.#deliver(reply, key));
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

  #refusal(): Error {
    return this.#closedBy ?? new LeaseLostError('stopped', 'this reply came after its message was handled');
  }

  async #deliver(reply: Reply, key: string): Promise<void> {
    const context = new Sending(this.#hold, key);
    for (let waits = 0; ; waits++) {
      if (this.#isClosed) throw this.#refusal();
      this.#hold.turn.assertHeld();
      try {
        await this.#provider.send(this.#chat, reply, context);
        return;
      } catch (error) {
        const waitMs = error instanceof DeliveryError ? error.retryAfterMs : undefined;
        if (waitMs === undefined || waitMs > LONGEST_WAIT_MS || waits === MOST_WAITS) throw error;
        await pause(this.#clock, waitMs, this.#hold.signal);
      }
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
