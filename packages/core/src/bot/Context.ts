import type { ChatTurn } from '../coordination/types.js';
import { BadInputError } from '../errors.js';
import type { Attempt } from '../pipeline/Attempt.js';
import type { ChatJob, Message } from '../pipeline/envelope.js';
import type { Held, Holds } from '../pipeline/Holds.js';
import type { Session } from '../pipeline/Session.js';
import type { Reply } from '../providers/provider.js';

/** What a chat keeps between messages, when its Bot does not say more closely. */
export type ChatState = Record<string, unknown>;

/** Where the types of the states do not matter. */
// biome-ignore lint/suspicious/noExplicitAny: that is what it is for
export type AnyContext = Context<any, any, any>;

/** What a pattern found: as `RegExp.exec` gives it, with `groups` also where the pattern names none. */
export interface Matched<Groups = unknown> extends Omit<RegExpExecArray, 'groups'> {
  readonly groups: Groups;
}

/** What is kept under a key that a handler holds: `user` and those of other users, `global`, and any other. */
export type HeldBy<Key extends string, U extends object, G extends object> = Key extends 'user' | `user:${string}`
  ? Held<U>
  : Key extends 'global'
    ? Held<G>
    : Held<ChatState>;

/** Makes the holds of an attempt. */
export type Holding = (attempt: Attempt) => Holds;

/** What the handlers of a context hold. Undefined when nothing was asked for. */
export let holdsOf: (ctx: AnyContext) => Holds | undefined;

/** For flows, which keep their place beside the handlers' state. */
export let sessionOf: (ctx: AnyContext) => Session;

/** For matching: the text without regard to case or space around it, made once. */
export let foldedTextOf: (ctx: AnyContext) => string;

export function fold(text: string): string {
  return text.trim().toLowerCase();
}

/** What a handler gets: one message in its turn. Good until the handler has ended. */
export class Context<S extends object = ChatState, U extends object = ChatState, G extends object = ChatState> {
  /** The replica that handles the message. */
  readonly replicaId: string;
  /** What a `when(RegExp, …)` found. */
  match: Matched | undefined;
  readonly #attempt: Attempt;
  readonly #holding: Holding | undefined;
  #holds: Holds | undefined;
  #folded: string | undefined;

  static {
    holdsOf = (ctx) => ctx.#holds;
    sessionOf = (ctx) => ctx.#attempt.session;
    foldedTextOf = (ctx) => {
      ctx.#folded ??= fold(ctx.#attempt.message.text);
      return ctx.#folded;
    };
  }

  /** Use `bot`. Without `holding` it is for a hook, which holds nothing but the chat. */
  constructor(attempt: Attempt, replicaId: string, holding?: Holding) {
    this.#attempt = attempt;
    this.replicaId = replicaId;
    this.#holding = holding;
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
   * True when the backend is away and `onUnavailable` is `local`: other replicas may handle messages of this chat at the
   * same time, and `ctx.state` is this process's own, begun empty and forgotten afterwards.
   */
  get isLocal(): boolean {
    return this.#attempt.isLocal;
  }

  /**
   * Hears what `bot.steer` sends to this chat, from whichever replica, until the returned function is called or the handler
   * has ended. What came since the turn began is kept for the first listener, up to 256. What a listener throws fails no
   * message: `onError` hears of it.
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
   * Holds a key besides the chat until the handler has ended, so that no other handler in the mesh has it meanwhile, in
   * whichever chat: `user` (who wrote the message), `user:<id>`, `global`, or any name of your own. What you find in `state`
   * is kept under the key, and saved under a fence of its own. Several are given as an array, in the order asked for.
   *
   * Keys are taken one after the other, in the order of their names, and two handlers never wait for each other. So take
   * all that you need in one call: one that comes before a key you hold already is refused. A hold that is lost is the turn
   * lost: the signal aborts, replies are refused, nothing is saved, the message comes again.
   *
   * The states of several keys are not saved in one step: when the replica dies between, the message is handled again and
   * finds some of what it did. A key that is held for long keeps others waiting for as long: `maxTurnMs` limits it.
   *
   * @throws BadInputError for a key that comes before one that is held, or `user` where nobody wrote the message
   * @throws what the signal aborts with, when it does meanwhile; an outage of the backend is waited out
   */
  hold<const K extends string>(key: K): Promise<HeldBy<K, U, G>>;
  hold<const K extends readonly [string, string, ...string[]]>(
    ...keys: K
  ): Promise<{ [At in keyof K]: HeldBy<K[At] & string, U, G> }>;
  hold(...keys: string[]): Promise<unknown> {
    const taking = this.#take(keys);
    // A forgotten await fails the message by what it did not get, not the process.
    taking.catch(() => {});
    return taking;
  }

  async #take(keys: readonly string[]): Promise<unknown> {
    if (this.#holding === undefined) throw new BadInputError('ctx.hold(): a hook holds nothing but its chat.');
    this.#holds ??= this.#holding(this.#attempt);
    const held = await this.#holds.take(keys.map((key) => this.#keyOf(key)));
    return keys.length === 1 ? held[0] : held;
  }

  #keyOf(key: unknown): string {
    if (typeof key !== 'string' || key === '') {
      throw new BadInputError(
        `ctx.hold(): expected the name of a key, found ${key === '' ? 'an empty one' : typeof key}.`,
      );
    }
    if (key !== 'user') return key;
    const { from } = this.#attempt.message;
    if (from !== undefined) return `user:${from}`;
    throw new BadInputError("ctx.hold('user'): nobody wrote this message. Name whom you mean: 'user:<id>'.");
  }

  /**
   * Runs `act` in a transaction of the database that keeps the state, and commits in one step what `act` wrote there,
   * `ctx.state` as it is then, and that the message is handled. So it is all done once, or not at all: a replica that
   * dies before the commit leaves nothing, and the message is handled again; one that dies after it leaves a message that is
   * not handled again. Refused, and taken back, when the turn is no longer held at the commit.
   *
   * `act` gets what the database's library gives in a transaction: with pg its client, with postgres its `sql`. It may not
   * end the transaction itself. What it throws takes everything back, and is thrown on.
   *
   * Replies asked for until `act` has ended leave before the commit. What the handler does after the commit is done at most
   * once, and what it throws then is told to `onError` only. What is kept under held keys is saved afterwards, as ever. Once
   * for a message.
   *
   * @throws LeaseLostError or StaleFenceError when the turn was lost
   * @throws ConfigError where turns and state are not in one database that can do it
   * @throws CoordinationUnavailableError when the database does not answer; the next attempt knows what came of it
   */
  transaction<T, Sql = unknown>(act: (sql: Sql) => T | PromiseLike<T>): Promise<T> {
    if (this.#holding === undefined) return refuse('a hook has none.');
    if (typeof act !== 'function') return refuse(`expected a function, found ${typeof act}.`);
    return this.#attempt.transaction(
      async (sql) => act(sql as Sql),
      () => this.#holds?.assertHeld(),
    );
  }

  /**
   * Sends a reply to the chat, after those before it. Rejects with LeaseLostError, and sends nothing, once the turn is
   * lost; with the provider's error when it cannot deliver. An error of a reply that nobody awaits fails the message.
   */
  reply(reply: string | Reply): Promise<void> {
    this.#holds?.assertHeld();
    if (typeof reply === 'string') return this.#attempt.outbox.send({ text: reply });
    if (typeof reply?.text === 'string') return this.#attempt.outbox.send(reply);
    throw new BadInputError(`ctx.reply(): expected a text or { text }, found ${typeof reply}.`);
  }
}

function refuse(why: string): Promise<never> {
  return Promise.reject(new BadInputError(`ctx.transaction(): ${why}`));
}

/** What a handler of a job gets: the context of a chat's turn, where nobody wrote anything. */
export type JobContext<
  S extends object = ChatState,
  U extends object = ChatState,
  G extends object = ChatState,
> = Context<S, U, G> & { readonly job: ChatJob };
