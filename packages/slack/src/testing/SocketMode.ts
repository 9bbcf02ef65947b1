import { randomUUID } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { type WebSocket, WebSocketServer } from 'ws';
import { APP, type Payload, type PayloadType, textOf } from './payloads.js';

const CLOSE_MS = 300;

export interface SocketCounts {
  /** Connections that are open now. */
  readonly open: number;
  /** The most that were open at one moment. */
  readonly most: number;
  /** All that were ever opened. */
  readonly opened: number;
}

export interface SocketModeOptions {
  /** How long a client has to acknowledge an envelope, in milliseconds. */
  readonly ackMs: number;
  /** How often it is asked whether it is there; who does not answer until the next time is cut off. 0: never. */
  readonly pingMs: number;
}

/** What became of one envelope: the acknowledgement's body, or that there was none. */
export type Acknowledged = { readonly payload: Payload } | 'timeout' | 'closed';

export interface Envelope {
  readonly type: PayloadType;
  readonly payload: Payload;
  /** 0 for the first delivery. */
  readonly retryAttempt: number;
  readonly retryReason: string;
}

interface Connection {
  readonly socket: WebSocket;
  readonly waiting: Map<string, (answer: Acknowledged) => void>;
  isAlive: boolean;
}

/** The servers of Socket Mode: as many connections as are opened, and each envelope to one of them. */
export class SocketMode {
  readonly #options: SocketModeOptions;
  readonly #server = new WebSocketServer({ noServer: true });
  readonly #connections = new Set<Connection>();
  readonly #tickets = new Set<string>();
  readonly #opening: (() => void)[] = [];
  readonly #pings: NodeJS.Timeout | undefined;
  #most = 0;
  #opened = 0;
  #sent = 0;
  #isClosed = false;

  constructor(options: SocketModeOptions) {
    this.#options = options;
    if (options.pingMs > 0) this.#pings = setInterval(() => this.#ping(), options.pingMs);
  }

  get counts(): SocketCounts {
    return { open: this.#connections.size, most: this.#most, opened: this.#opened };
  }

  /** Counts the most that are open at one moment anew, from now on. */
  recount(): void {
    this.#most = this.#connections.size;
  }

  /** A ticket for one connection, as `apps.connections.open` gives it. */
  ticket(): string {
    const ticket = randomUUID();
    this.#tickets.add(ticket);
    return ticket;
  }

  /** Takes a connection over from the HTTP server. */
  upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void {
    const ticket = new URL(request.url ?? '/', 'http://localhost').searchParams.get('ticket') ?? '';
    if (!this.#tickets.delete(ticket)) {
      socket.end('HTTP/1.1 401 Unauthorized\r\nconnection: close\r\n\r\n');
      return;
    }
    this.#server.handleUpgrade(request, socket, head, (opened) => this.#open(opened));
  }

  /** Sends an envelope to one connection, each in its turn. Waits until there is one; resolves with what became of it. */
  async send(envelope: Envelope): Promise<Acknowledged> {
    while (this.#connections.size === 0 && !this.#isClosed) {
      await new Promise<void>((resolve) => this.#opening.push(resolve));
    }
    if (this.#isClosed) return 'closed';
    const all = [...this.#connections];
    return this.#sendTo(all[this.#sent++ % all.length]!, envelope);
  }

  /** Says to every connection that it will be, or is to be, given up. The client closes it and opens another one. */
  disconnect(reason: 'warning' | 'refresh_requested' | 'link_disabled'): void {
    const text = JSON.stringify({ type: 'disconnect', reason, debug_info: { host: 'fake' } });
    for (const { socket } of this.#connections) socket.send(text);
  }

  /** Reads nothing from the connections for so long: what they say, also that they close, is heard later. */
  stall(ms: number): void {
    for (const { socket } of this.#connections) {
      socket.pause();
      setTimeout(() => socket.resume(), ms).unref();
    }
  }

  /** Cuts all connections, without a word. */
  cut(): void {
    for (const { socket } of this.#connections) socket.terminate();
  }

  /** Closes all connections, and cuts those whose other end does not answer. */
  async close(): Promise<void> {
    this.#isClosed = true;
    clearInterval(this.#pings);
    for (const go of this.#opening.splice(0)) go();
    const closed = [...this.#connections].map(({ socket }) => {
      const gone = new Promise((resolve) => socket.once('close', resolve));
      socket.close(1001);
      return gone;
    });
    await Promise.race([Promise.all(closed), sleep(CLOSE_MS)]);
    this.cut();
    this.#server.close();
  }

  #open(socket: WebSocket): void {
    const connection: Connection = { socket, waiting: new Map(), isAlive: true };
    this.#connections.add(connection);
    this.#opened += 1;
    this.#most = Math.max(this.#most, this.#connections.size);
    socket.on('pong', () => {
      connection.isAlive = true;
    });
    socket.on('message', (data) => acknowledge(connection, String(data as Buffer)));
    socket.on('error', () => socket.terminate());
    socket.on('close', () => {
      this.#connections.delete(connection);
      for (const answer of connection.waiting.values()) answer('closed');
    });
    const info = { num_connections: this.#connections.size, connection_info: { app_id: APP } };
    socket.send(JSON.stringify({ type: 'hello', ...info, debug_info: { host: 'fake' } }));
    for (const go of this.#opening.splice(0)) go();
  }

  #sendTo(
    { socket, waiting }: Connection,
    { type, payload, retryAttempt, retryReason }: Envelope,
  ): Promise<Acknowledged> {
    const id = randomUUID();
    const isEvent = type === 'events_api';
    const retry = isEvent ? { retry_attempt: retryAttempt, retry_reason: retryReason } : {};
    const envelope = { envelope_id: id, payload, type, accepts_response_payload: !isEvent, ...retry };
    return new Promise((resolve) => {
      const answer = (how: Acknowledged): void => {
        clearTimeout(timer);
        waiting.delete(id);
        resolve(how);
      };
      const timer = setTimeout(() => answer('timeout'), this.#options.ackMs);
      waiting.set(id, answer);
      socket.send(JSON.stringify(envelope));
    });
  }

  #ping(): void {
    for (const connection of this.#connections) {
      if (!connection.isAlive) connection.socket.terminate();
      connection.isAlive = false;
      connection.socket.ping();
    }
  }
}

/** What is no acknowledgement of something that waits for one is not minded, as at Slack. */
function acknowledge({ waiting }: Connection, text: string): void {
  let said: { envelope_id?: unknown; payload?: unknown };
  try {
    said = JSON.parse(text) as typeof said;
  } catch {
    return;
  }
  const payload = typeof said.payload === 'object' && said.payload !== null ? (said.payload as Payload) : {};
  waiting.get(textOf(said.envelope_id))?.({ payload });
}
