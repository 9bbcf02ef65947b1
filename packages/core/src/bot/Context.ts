import type { ChatTurn } from '../coordination/types.js';
import { BadInputError } from '../errors.js';
import type { Attempt } from '../pipeline/Attempt.js';
import type { ChatJob, Message } from '../pipeline/envelope.js';
import type { Session } from '../pipeline/Session.js';
import type { Reply } from '../providers/provider.js';

/** What a chat keeps between messages, when its Bot does not say more closely. */
export type ChatState = Record<string, unknown>;

/** For flows, which keep their place beside the handlers' state. */
// biome-ignore lint/suspicious/noExplicitAny: whatever the state's type
export let sessionOf: (ctx: Context<any>) => Session;

/** For matching: the text without regard to case or space around it, made once. */
// biome-ignore lint/suspicious/noExplicitAny: as above
export let foldedTextOf: (ctx: Context<any>) => string;

export function fold(text: string): string {
  return text.trim().toLowerCase();
}

/** What a handler gets: one message in its turn. Good until the handler has ended. */
export class Context<S extends object = ChatState> {
  /** The replica that handles the message. */
  readonly replicaId: string;
  /** What a `when(RegExp, …)` found. */
  match: RegExpExecArray | undefined;
  readonly #attempt: Attempt;
  #folded: string | undefined;

  static {
    sessionOf = (ctx) => ctx.#attempt.session;
    foldedTextOf = (ctx) => {
      ctx.#folded ??= fold(ctx.#attempt.message.text);
      return ctx.#folded;
    };
  }

  constructor(attempt: Attempt, replicaId: string) {
    this.#attempt = attempt;
    this.replicaId = replicaId;
  }

  get message(): Message {
    return this.#attempt.message;
  }

  /**
   * All messages that are handled in this run, in their order; `ctx.message` is the last of them. More than one only where
   * the bot's `overlap` lets them be handled together.
   */
  get messages(): readonly Message[] {
    return this.#attempt.messages;
  }

  /** The work that `job.inChat` put here. Undefined for what somebody wrote. */
  get job(): ChatJob | undefined {
    return this.#attempt.message.job;
  }

  /** 1 for the first try, 2 after a failure or the death of a replica, and so on. */
  get attempt(): number {
    return this.#attempt.number;
  }

  /** The turn that holds the chat. Send `turn.fence` along with writes of your own. */
  get turn(): Pick<ChatTurn, 'key' | 'fence' | 'assertHeld'> {
    return this.#attempt.turn;
  }

  /**
   * Aborts when the turn is lost (LeaseLostError), takes too long (TurnLimitError), is cancelled (CancelledError) or
   * interrupted by a newer message (SupersededByNewerError): pass it to whatever takes long.
   */
  get signal(): AbortSignal {
    return this.#attempt.signal;
  }

  /**
   * The chat's own state: a plain object of JSON data, changed in place, saved when the message is handled. Not saved
   * otherwise. What JSON cannot hold (a Date, a Map, a function, NaN) fails the message with BadInputError; a member that
   * is undefined is forgotten.
   */
  get state(): S {
    return this.#attempt.session.data as S;
  }

  set state(value: S) {
    this.#attempt.session.data = value as Record<string, unknown>;
  }

  /**
   * Hears what `bot.steer` sends to this chat, from whichever replica, until the returned function is called or the handler
   * has ended. What came since the turn began is kept for the first listener.
   */
  onSteer(listener: (payload: unknown) => unknown): () => void {
    if (typeof listener === 'function') return this.#attempt.steering.on(listener);
    throw new BadInputError(`ctx.onSteer(): expected a function, found ${typeof listener}.`);
  }

  /** Says that the handler goes on well: the time of `maxTurnMs` begins anew, up to `maxProgressMs` in all. */
  progress(note = ''): void {
    this.#attempt.progress(String(note));
  }

  /**
   * Sends a reply to the chat, after those before it. Rejects with LeaseLostError, and sends nothing, once the turn is
   * lost; with the provider's error when it cannot deliver. An error of a reply that nobody awaits fails the message.
   */
  reply(reply: string | Reply): Promise<void> {
    if (typeof reply === 'string') return this.#attempt.outbox.send({ text: reply });
    if (typeof reply?.text === 'string') return this.#attempt.outbox.send(reply);
    throw new BadInputError(`ctx.reply(): expected a text or { text }, found ${typeof reply}.`);
  }
}

/** What a handler of a job gets: the context of a chat's turn, where nobody wrote anything. */
export type JobContext<S extends object = ChatState> = Context<S> & { readonly job: ChatJob };
