import type { ChatTurn } from '../coordination/types.js';
import { BadInputError } from '../errors.js';
import type { Message } from './envelope.js';
import { type Lane, Outbox } from './outbox.js';
import type { Session } from './Session.js';
import { Steering } from './Steering.js';
import type { SendRecord } from './sends.js';
import { Watched } from './Watched.js';

/** One attempt at one message, or at several that are handled together: what a handler works with. */
export class Attempt {
  /** The newest of its messages. */
  readonly message: Message;
  readonly turn: ChatTurn;
  readonly number: number;
  readonly session: Session;
  readonly #way: Way;
  readonly #older: readonly Message[];
  /** Made for the first reply: many messages have none. */
  #outbox: Outbox | undefined;
  #steering: Steering | undefined;
  #isClosed = false;
  #transaction: { readonly promise: Promise<unknown>; readonly seen: Watched<unknown> } | undefined;
  #hasFailed = false;
  #ended: Error | undefined;
  /** What late replies reject with; undefined for the common error. */
  #refusal: Error | undefined;
  #controller: AbortController | undefined;
  #unfollow: (() => void) | undefined;

  /** `older` are handled together with `message`. */
  constructor(message: Message, older: readonly Message[], turn: ChatTurn, number: number, session: Session, way: Way) {
    this.message = message;
    this.turn = turn;
    this.number = number;
    this.session = session;
    this.#older = older;
    this.#way = way;
  }

  /** All messages that are handled, in their order. */
  get messages(): readonly Message[] {
    return [...this.#older, this.message];
  }

  /** Aborts when the turn is lost, its time is over, or it is asked to end. */
  get signal(): AbortSignal {
    if (this.#controller === undefined) {
      this.#controller = new AbortController();
      if (this.#ended !== undefined) this.#controller.abort(this.#ended);
      else this.#unfollow = follow(this.turn.signal, this.#controller);
    }
    return this.#controller.signal;
  }

  get outbox(): Outbox {
    if (this.#outbox === undefined) {
      this.#outbox = new Outbox(this.#way, this.message.chat, this);
      if (this.#hasFailed) this.#outbox.beginHooks(this.number);
      if (this.#isClosed) this.#outbox.close(this.#refusal);
    }
    return this.#outbox;
  }

  /** What others tell the handler. */
  get steering(): Steering {
    this.#steering ??= new Steering((error) => this.#way.steerFailed(error));
    return this.#steering;
  }

  /** Whether the backend is away, and the chat's order is this process's own. */
  get isLocal(): boolean {
    return this.#way.isLocal;
  }

  /** Says that the handler goes on well. */
  progress(note: string): void {
    if (!this.#isClosed) this.#way.progress(note);
  }

  /** Undefined when nothing is on its way; else resolves as `Outbox.flush` does. */
  flush(): Promise<void> | undefined {
    return this.#outbox === undefined || this.#outbox.isClear ? undefined : this.#outbox.flush();
  }

  /**
   * Ends the message in one transaction with what `act` writes. `assertFit` throws when it may no longer commit. The
   * replies so far leave before.
   */
  transaction<T>(act: (sql: unknown) => Promise<T>, assertFit: () => void): Promise<T> {
    if (this.#transaction !== undefined) {
      return Promise.reject(
        new BadInputError(
          'ctx.transaction(): it is all there is for one message, and it was used. Put everything into one.',
        ),
      );
    }
    const promise = this.#way.transact(act, async () => {
      await this.flush();
      if (this.#ended !== undefined) throw this.#ended;
      assertFit();
    });
    promise.catch(() => {});
    const seen = new Watched(promise);
    this.#transaction = { promise, seen };
    return seen;
  }

  /** Resolves when its transaction has ended, and rejects with what became of it where nobody awaited that. Undefined for none. */
  get transacting(): Promise<unknown> | undefined {
    const { promise, seen } = this.#transaction ?? {};
    return promise?.catch((error: unknown) => {
      if (!seen!.isSeen) throw error;
    });
  }

  /** What its handlers sent. */
  get sends(): readonly SendRecord[] {
    return this.#outbox?.log ?? [];
  }

  /** The handlers have failed: what is sent now is of the hooks. */
  beginHooks(): void {
    this.#hasFailed = true;
    this.#outbox?.beginHooks(this.number);
  }

  /** It is to end: nothing leaves any more, and its signal says why. So do late replies when they reject with `refusal`. */
  abort(error: Error, refusal?: Error): void {
    if (this.#ended !== undefined) return;
    this.#ended = error;
    this.#refusal = refusal;
    this.close();
    this.#controller?.abort(error);
  }

  /** No reply leaves any more. */
  close(): void {
    this.#isClosed = true;
    this.#outbox?.close(this.#refusal);
    this.#steering?.close();
    this.#unfollow?.();
  }
}

/** What an attempt is given along. */
export interface Way extends Lane {
  readonly isLocal: boolean;
  progress(note: string): void;
  /** Hears what went wrong in what the handler does with hints of others. */
  steerFailed(error: unknown): void;
  /** `ready` is waited for before the commit, and prevents it by throwing. */
  transact<T>(act: (sql: unknown) => Promise<T>, ready: () => Promise<void>): Promise<T>;
}

/** Until the returned function is called: a turn may see many attempts. */
function follow(signal: AbortSignal, controller: AbortController): (() => void) | undefined {
  const onAbort = (): void => controller.abort(signal.reason);
  if (signal.aborted) onAbort();
  else signal.addEventListener('abort', onAbort, { once: true });
  return () => signal.removeEventListener('abort', onAbort);
}
