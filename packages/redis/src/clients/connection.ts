/** A Lua script and the SHA-1 of its text, in hexadecimal. */
export interface Script {
  readonly sha: string;
  readonly text: string;
}

/**
 * What this package asks of a client library. Every call fails at once while there is no connection, and after
 * `timeoutMs` without an answer; nothing is queued, and nothing is sent again.
 *
 * A call that failed may all the same have run on the server, or run later. Repairs itself until closed: after a loss,
 * a silent server, or a reply that says this is no longer the right server, it connects anew.
 */
export interface Connection {
  readonly isCluster: boolean;
  /** The server's address, for messages: without user and password. */
  readonly where: string;
  /**
   * Runs a script that has at least one key, and returns its reply: strings, numbers, null, and arrays of these, in
   * every library. Sends the text only when the server does not know the script.
   *
   * @throws CoordinationUnavailableError when there is no answer; whatever error the script or server replied else
   */
  evalsha(script: Script, keys: readonly string[], args: readonly (string | number)[]): Promise<unknown>;
  /** Sends one command. `key` tells a Cluster where to; without it any node is asked. */
  command(args: readonly string[], key?: string): Promise<unknown>;
  /**
   * Hears a channel until the returned function is called, across reconnects; what is published meanwhile is lost.
   * Resolves when the server has confirmed. In a Cluster these are sharded channels (SSUBSCRIBE, SPUBLISH).
   *
   * Subscribing again to a channel that is heard already means that it is heard no more: its connection is made anew.
   */
  subscribe(channel: string, onMessage: (message: string) => void): Promise<() => Promise<void>>;
  /** Calls back each time commands or channels are connected again after a loss. Returns how to stop that. */
  onReconnect(listener: () => void): () => void;
  /** Closes what was opened here, and nothing that was passed in. Repeatable. Calls after it fail. */
  close(): Promise<void>;
}

/** Where and how to connect. Exactly one of `url` and `client`. */
export interface ConnectionOptions {
  /** `redis://[user:password@]host[:port][/database]`; `rediss://` with TLS; `valkey://` and `valkeys://` likewise. */
  url?: string | undefined;
  /** The URL is that of a node of a Cluster. Default false. */
  cluster?: boolean | undefined;
  /** What Node's `tls.connect` takes, for `rediss://`: `ca`, `cert`, `key`, `servername`. */
  tls?: TlsOptions | undefined;
  /**
   * A client of ioredis, node-redis or iovalkey, or a Cluster of theirs. Its settings are taken over; it is not used
   * itself, and never closed.
   */
  client?: unknown;
  /** How long to wait for the answer to one command. */
  timeoutMs: number;
  /** How long one attempt to connect may take. */
  connectTimeoutMs: number;
}

export interface TlsOptions {
  readonly ca?: string | Buffer | readonly (string | Buffer)[];
  readonly cert?: string | Buffer;
  readonly key?: string | Buffer;
  readonly servername?: string;
  readonly rejectUnauthorized?: boolean;
}
