import type { ChatTurn } from '../coordination/types.js';
import type { Provider } from '../providers/provider.js';
import type { Clock } from '../time/clock.js';
import type { Message } from './envelope.js';
import { Outbox } from './outbox.js';
import type { Session } from './Session.js';

/** One attempt at one message: what a handler works with. */
export class Attempt {
  readonly message: Message;
  readonly turn: ChatTurn;
  readonly number: number;
  readonly session: Session;
  readonly #way: Way;
  /** Made for the first reply: many messages have none. */
  #outbox: Outbox | undefined;
  #isClosed = false;
  readonly #limit: AbortController | undefined;
  #signal: AbortSignal | undefined;

  constructor(message: Message, turn: ChatTurn, number: number, session: Session, way: Way) {
    this.message = message;
    this.turn = turn;
    this.number = number;
    this.session = session;
    this.#way = way;
    this.#limit = way.isLimited ? new AbortController() : undefined;
  }

  /** Aborts when the turn is lost, or its time is over. */
  get signal(): AbortSignal {
    if (this.#limit === undefined) return this.turn.signal;
    this.#signal ??= AbortSignal.any([this.turn.signal, this.#limit.signal]);
    return this.#signal;
  }

  get outbox(): Outbox {
    if (this.#outbox === undefined) {
      const { provider, clock, mark } = this.#way;
      const { chat, id } = this.message;
      this.#outbox = new Outbox(provider, clock, chat, this, `${chat}:${id ?? mark}`);
      if (this.#isClosed) this.#outbox.close();
    }
    return this.#outbox;
  }

  /** Undefined when nothing is on its way; else resolves as `Outbox.flush` does. */
  flush(): Promise<void> | undefined {
    return this.#outbox === undefined || this.#outbox.isClear ? undefined : this.#outbox.flush();
  }

  /** Its time is over. */
  abort(error: Error): void {
    this.close();
    this.#limit?.abort(error);
  }

  /** No reply leaves any more. */
  close(): void {
    this.#isClosed = true;
    this.#outbox?.close();
  }
}

/** What an attempt is given along. `mark` names the message where the platform did not. */
export interface Way {
  readonly provider: Provider;
  readonly clock: Clock;
  readonly mark: number;
  /** Whether the handlers' time is limited. */
  readonly isLimited: boolean;
}
