/**
 * One way to the server through a client library. It is never repaired: when it breaks it ends, and another one is made.
 * So no library queues a command, sends one again, or connects to where the old one was.
 */
export interface Link {
  /** `key` is what decides the node in a Cluster. */
  send(args: readonly string[], key?: string): Promise<unknown>;
  /** Names the connection that a channel is heard on: the node that has its slot, in a Cluster. */
  homeOf(channel: string): string;
  /** Opens a connection of its own for the channels of a home. */
  listen(home: string, events: ListenerEvents): Promise<ListenerLink>;
  /** Ends it at once; what is under way rejects. Repeatable. */
  destroy(): void;
}

export interface ListenerLink {
  /** Resolves when the server has confirmed. */
  subscribe(channel: string): Promise<void>;
  unsubscribe(channel: string): Promise<void>;
  destroy(): void;
}

export interface ListenerEvents {
  readonly onMessage: (channel: string, message: string) => void;
  /** Called once when it has ended, and perhaps when it was destroyed here. */
  readonly onEnd: () => void;
}

/** Makes links with the settings of one client of the user, or of a URL. */
export interface Dialer {
  readonly isCluster: boolean;
  /** The server's address, for messages: without user and password. */
  readonly where: string;
  /**
   * Resolves when the server has answered. Rejects with the server's or the system's own error within the connect
   * timeout, and leaves nothing open then. `onEnd` is called once when the link has ended, and perhaps when it was destroyed.
   */
  dial(onEnd: () => void): Promise<Link>;
}

export interface Address {
  readonly host?: string | undefined;
  readonly port?: number | undefined;
  /** Of a Unix socket. */
  readonly path?: string | undefined;
}

/** For messages. */
export function shownAddress({ host = 'localhost', path, port = 6379 }: Address): string {
  return path ?? `${host}:${port}`;
}

export interface DialSettings {
  readonly timeoutMs: number;
  readonly connectTimeoutMs: number;
}
