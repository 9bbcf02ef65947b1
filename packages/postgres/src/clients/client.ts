/**
 * One PostgreSQL that answers: what a store asks of a client library. Nothing is queued while there is no connection, and
 * nothing is sent again: a call fails within its time limit instead. A call that failed may all the same have run on the
 * server, or run later.
 */
export interface Client {
  /**
   * Runs one statement, a transaction of its own, and gives the first column of its first row as text. Null for no row.
   *
   * @throws CoordinationUnavailableError when there is no answer, or none now; ConfigError when the server cannot be used
   * as it is set up; DatabaseError for what else it refused
   */
  call(text: string, values: readonly (string | null)[]): Promise<string | null>;
  /**
   * Hears notifications on `channel`, on a connection of its own, until the returned function is called. `onGap` is called
   * whenever some may have been missed: it was connected anew. Listening again to a channel that is heard already means
   * that it is heard no more: its connection is made anew.
   *
   * @throws ConfigError when what stands between keeps no connection for a listener: a pooler of transactions
   * @throws CoordinationUnavailableError when there is no connection
   */
  listen(channel: string, onPayload: (payload: string) => void, onGap: () => void): Promise<() => Promise<void>>;
  /** Ends what was opened here, and nothing that was passed in. Idempotent. Calls fail until it is opened again. */
  close(): Promise<void>;
}

/** A client as a coordinator and a state store make it: of a URL, or of an instance of the user. */
export interface PostgresClient extends Client {
  /** The server's address and the database, for messages: without user and password. */
  readonly where: string;
  /** How a replica learns of what others did for it: by a connection that listens, or by asking again and again. */
  readonly wakeUp: WakeUp;
  /**
   * Connects, looks whether the server and the schema are fit, and sets the schema up where that is wanted and allowed.
   * Done once, also when called at the same time; again after `close`, and after it failed.
   *
   * @throws ConfigError that says what to change; CoordinationUnavailableError when the server does not answer
   */
  open(): Promise<void>;
}

export type WakeUp = 'listen' | 'poll';

/** What PostgreSQL refused, without what it may have put in of values: only its code and its sentence. */
export class DatabaseError extends Error {
  override readonly name = 'DatabaseError';
  /** The SQLSTATE. */
  readonly code: string;

  constructor(code: string, message: string) {
    super(message);
    this.code = code;
  }
}
