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

  constructor(message: Message, turn: ChatTurn, number: number, session: Session, way: Way) {
    this.message = message;
    this.turn = turn;
    this.number = number;
    this.session = session;
    this.#way = way;
  }

  get outbox(): Outbox {
    if (this.#outbox === undefined) {
      const { provider, clock, mark } = this.#way;
      const { chat, id } = this.message;
      this.#outbox = new Outbox(provider, clock, chat, this.turn, `${chat}:${id ?? mark}`);
      if (this.#isClosed) this.#outbox.close();
    }
    return this.#outbox;
  }

  /** Undefined when nothing is on its way; else resolves as `Outbox.flush` does. */
  flush(): Promise<void> | undefined {
    return this.#outbox === undefined || this.#outbox.isClear ? undefined : this.#outbox.flush();
  }

  /** No reply leaves any more. */
  close(): void {
    this.#isClosed = true;
    this.#outbox?.close();
  }
}

/** How replies leave. `mark` names the message where the platform did not. */
export interface Way {
  readonly provider: Provider;
  readonly clock: Clock;
  readonly mark: number;
}
