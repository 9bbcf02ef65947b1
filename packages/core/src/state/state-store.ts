/** What a load found: the value, and the fence under which it was written. */
export interface StoredState {
  readonly value: unknown;
  readonly fence: number;
}

/**
 * Where the state of chats is kept between messages. A call that fails for now, because the store cannot be reached or has
 * no room, rejects with a CoordinationUnavailableError: the Bot then makes it again, in place, as long as the turn is held.
 * Any other error fails the message's attempt. Values are plain JSON data. What is loaded and what was saved share
 * nothing: changing one does not change the other.
 */
export interface StateStore {
  /**
   * The newest value saved under `key`, or null.
   *
   * @throws BadInputError when the key is not a string, as do the others
   */
  load(key: string): Promise<StoredState | null>;
  /**
   * Saves `value` if no greater fence was seen for `key`, in one atomic step. The same fence may save again.
   *
   * @throws StaleFenceError when a greater fence was seen; nothing is written
   * @throws BadInputError when the fence is no safe integer from 0 up, or the value no plain JSON data
   */
  save(key: string, value: unknown, fence: number): Promise<void>;
  /** Forgets the value and its fence, for those who clean up. The Bot never calls it. */
  delete?(key: string): Promise<void>;
}

/** What is to be one transaction: what a handler writes to its own tables, and the end of its message. */
export interface TurnTransaction<T> {
  /** The turn, by the ticket that holds the key: it must be held at the moment of the commit. */
  readonly turn: { readonly key: string; readonly seq: number; readonly fence: number };
  /** The handler's part, given the database's own client in the transaction. What it throws takes everything back. */
  readonly run: (sql: unknown) => Promise<T>;
  /** Asked for once `run` has resolved: what to save, and under which key. What it throws takes everything back. */
  readonly saved: () => Promise<{ readonly key: string; readonly value: unknown }>;
}

/** A state store beside which a handler can write, in the same transaction: see `ctx.transaction`. */
export interface TransactionalStateStore extends StateStore {
  /**
   * Runs both parts and commits: all of it is there afterwards, or nothing. Refused, at the commit itself, when the turn is
   * no longer held.
   *
   * @throws LeaseLostError or StaleFenceError when the turn is over; nothing is written
   * @throws ConfigError when the turns of this mesh are not in the store's database
   * @throws CoordinationUnavailableError when the database does not answer: what came of it is not known
   */
  transaction<T>(work: TurnTransaction<T>): Promise<T>;
}
