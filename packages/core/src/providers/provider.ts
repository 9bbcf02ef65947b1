/**
 * Provider: how a Bot reaches a platform. It turns what the platform sends into messages, and replies into sends. It
 * knows nothing of order, retries or state.
 */

/** One message of a chat. Plain JSON data: it may be stored, and handled by another replica than the one that got it. */
export interface IncomingMessage {
  /** What must be serial: the conversation's name on its platform. Any text but the empty one. */
  readonly chat: string;
  /** The platform's name for this message, the same in every redelivery. Without it, a redelivery is a new message. */
  readonly id?: string | undefined;
  /** Any text, also the empty one. */
  readonly text: string;
  /** Who wrote it, by the platform's name. */
  readonly from?: string | undefined;
  /** What it is, where not all are alike: `edit`, `callback`. A Bot may let kinds overlap differently. */
  readonly kind?: string | undefined;
  /** What the platform sent, as far as a handler may want it. Plain JSON data, stored along with the message. */
  readonly raw?: unknown;
}

/** What is sent to a chat. Fields besides `text` are the provider's own. */
export interface Reply {
  readonly text: string;
  readonly [extra: string]: unknown;
}

/**
 * Takes a message in. Call it in the order of arrival, and wait for nothing between arrival and call: the call fixes the
 * message's place. Resolves when the message is safely taken in, so that the platform may be told so: `duplicate` when
 * it was taken in before. Does not wait for the message to be handled.
 *
 * @throws CoordinationUnavailableError when it is not taken in: let the platform deliver it again
 * @throws LifecycleError when the bot is not started, or is stopping: the same
 * @throws BadInputError when the message can never be taken in
 */
export type Intake = (message: IncomingMessage) => Promise<'accepted' | 'duplicate'>;

/** What a send has to know of its turn. */
export interface SendContext {
  /** Aborts with a `LeaseLostError` when the turn is lost: stop sending. */
  readonly signal: AbortSignal;
  /** The turn's fencing token: greater than that of every earlier turn of this chat. 0 for a reply of `onRejected`. */
  readonly fence: number;
  /** The same for the same reply of the same message in every attempt: an idempotency key, where the platform takes one. */
  readonly key: string;
}

/** The leadership under which an exclusive provider runs. */
export interface Lead {
  /** Aborts when it is not surely held any more: the next leader may connect. */
  readonly signal: AbortSignal;
  /** Reads the clocks now, and throws `LeaseLostError` unless it is surely held. Call it before every connection. */
  assertHeld(): void;
  /**
   * Ends a connection that does not work from here: somebody outside of the mesh took it, the credentials are refused. The error
   * is told, the connection closed and the leadership let go, so that another replica may try; this one tries again
   * later, after a longer pause each time. Doubles in tests may leave it out.
   */
  giveUp?(error: unknown): void;
}

/** A platform. Made by a lower-case function: `telegram({ token })`. */
export interface Provider {
  /** Lower-case, for messages to people and for the name under which an exclusive provider is led. */
  readonly name: string;
  /**
   * True when only one connection may exist: the Bot starts it only while it leads `provider:<name>`, and only that replica
   * handles messages. `receiving` when only one may receive while all may send, as by long polling: every replica handles.
   */
  readonly exclusive?: boolean | 'receiving';
  /**
   * The accounts of an exclusive provider that has several, each with one connection, the same in every replica. Each is
   * led by itself, as `provider:<name>:<account>`; replicas have as many as each other, give or take one, and what moves
   * for that moves one at a time, closed before it is let go. Messages are handled where the account of their chat is
   * connected, or, for `receiving`, anywhere. Needs `accountOf`. The names are shown by `/readyz`: no secrets.
   */
  readonly accounts?: readonly string[];
  /**
   * Resolves when there will be no more messages. The Bot then handles what it has taken in, and stops. Must not reject.
   * Leave it out for a platform that has no end.
   */
  readonly ended?: Promise<void>;
  /**
   * The account that sends to `chat`, for a platform with several behind one provider: `rates.account` counts for each.
   * Without it, all chats are of one account.
   */
  accountOf?(chat: string): string;
  /**
   * What the platform counts the messages of `chat` by, where several chats share one limit: the channel of a thread.
   * `rates.chat` keeps all chats of one place together. Without it, each chat by itself.
   */
  placeOf?(chat: string): string;
  /**
   * Begins to take messages in. Resolves when it works. May be called again after `stop()`. An exclusive one is given the
   * leadership under which it runs; one with `accounts` is started, stopped and closed for each by its name.
   */
  start(intake: Intake, lead?: Lead, account?: string): Promise<void> | void;
  /** Takes nothing in any more. Turns still running may go on sending. Idempotent. */
  stop(account?: string): Promise<void> | void;
  /** Lets go of the connection: nothing is sent after. Called after the last turn has ended, before leadership goes. */
  close?(account?: string): Promise<void> | void;
  /** Answers the platform's HTTP call. Answers with success only when `intake` has resolved. */
  webhook?(request: Request, intake: Intake): Promise<Response>;
  /**
   * Sends to a chat. Resolves when the platform has it. Called one at a time for each chat, but for a
   * reply of `onRejected`, which does not wait for the turn that runs.
   *
   * @throws DeliveryError when the platform surely does not have it, with `retryAfterMs` when it said when to try again
   * @throws RateLimitedError when it asks for a pause
   * @throws DeliveryUnknownError, or anything else, when nobody knows whether it has it
   */
  send(chat: string, reply: Reply, context: SendContext): Promise<void> | void;
}
