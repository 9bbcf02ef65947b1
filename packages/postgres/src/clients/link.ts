/**
 * One connection through a client library. It is never repaired: when it breaks it ends, and another one is made. So no
 * library queues a statement, sends one again, or connects to where the old one was.
 */
export interface Link {
  /**
   * Runs one statement with `values`, or several without, and gives the first column of the first row of the last one as
   * text. One at a time. Rejects with the library's own error.
   */
  query(text: string, values?: readonly (string | null)[]): Promise<string | null>;
  /** The process that the other end calls its own: another than the server's where a pooler stands between. */
  readonly peerPid?: number | undefined;
  /** Ends it at once; what is under way rejects. Repeatable. */
  destroy(): void;
}

export interface LinkEvents {
  readonly onNotification?: ((channel: string, payload: string) => void) | undefined;
  /** Called once when it has ended, and perhaps when it was destroyed here. */
  readonly onEnd: () => void;
}

/** Makes links with the settings of one instance of the user, or of a URL. */
export interface Dialer {
  /** For messages: without user and password. */
  readonly where: string;
  /**
   * Resolves when the server has taken the login. Rejects with the server's or the system's own error within the connect
   * timeout, and leaves nothing open then.
   */
  dial(events: LinkEvents): Promise<Link>;
}

export interface DialSettings {
  /** How long to wait for the answer to one statement. */
  readonly timeoutMs: number;
  /** How long one attempt to connect may take. */
  readonly connectTimeoutMs: number;
}

/** How long a goodbye may take before the socket is closed without it. */
const GOODBYE_MS = 1_000;

/** Closes a socket that does not close by itself: a server that is silent would keep the process alive. */
export function closeSoon(socket: { destroy(): unknown; readonly destroyed: boolean } | undefined): void {
  if (socket === undefined || socket.destroyed) return;
  setTimeout(() => socket.destroy(), GOODBYE_MS).unref();
}

export function shownPlace(host: string, port: number | string, database: string): string {
  return `${host.startsWith('/') ? `${host} ` : `${host}:`}${port}/${database}`;
}
