import { ConfigError } from '@botmesh/core/spi';

const HELLO_MS = 10_000;
const CLOSE_MS = 3_000;

/** One frame that Slack sent, as an object. */
export type Frame = Readonly<Record<string, unknown>>;

/** What is asked of a WebSocket, whoever made it. */
type Socket = Pick<WebSocket, 'send' | 'close'> & {
  addEventListener(name: 'open' | 'close' | 'error', listener: () => void): void;
  addEventListener(name: 'message', listener: (event: { data: unknown }) => void): void;
  /** Only of the package `ws`, which also tells when it was asked whether it is there. */
  on?(name: 'ping', listener: () => void): void;
  terminate?(): void;
};

type MakeSocket = new (url: string) => Socket;

/**
 * The WebSocket that Node has; before Node 22 that of the package `ws`.
 *
 * @throws ConfigError when there is none
 */
export async function webSocket(): Promise<MakeSocket> {
  const own = (globalThis as { WebSocket?: unknown }).WebSocket;
  if (own !== undefined) return own as MakeSocket;
  try {
    return (await import('ws')).WebSocket as unknown as MakeSocket;
  } catch {
    throw new ConfigError('slack(): Socket Mode needs a WebSocket. Run npm install ws, or take Node 22 or later.');
  }
}

/** One connection of Socket Mode. It hears nothing that comes after `close()`, and never opens another one. */
export class Connection {
  readonly #socket: Socket;
  readonly #heard: (frame: Frame) => void;
  readonly #quietMs: number;
  #isOver = false;
  #quiet: NodeJS.Timeout | undefined;
  #greet: () => void = () => {};
  #gone: () => void = () => {};
  /** Resolves when the connection is gone, whoever ended it, or given up. */
  readonly closed: Promise<void>;

  /** `quietMs`: how long nothing may come before it counts as gone. */
  constructor(Make: MakeSocket, url: string, quietMs: number, heard: (frame: Frame) => void) {
    this.#heard = heard;
    this.#quietMs = quietMs;
    this.#socket = new Make(url); // an address is a ticket: it is in no message of ours
    this.closed = new Promise((resolve) => {
      this.#gone = resolve;
    });
    this.#socket.addEventListener('close', () => this.#gone());
    // What is wrong with it is told by its end.
    this.#socket.addEventListener('error', () => {});
    this.#socket.addEventListener('message', ({ data }) => this.#take(data));
    this.#socket.on?.('ping', () => this.#wait());
    void this.closed.then(() => this.#end());
  }

  /** Resolves with whether Slack has greeted in time. Without that it delivers nothing. */
  async greeted(): Promise<boolean> {
    let timer: NodeJS.Timeout | undefined;
    const greeting = new Promise<true>((resolve) => {
      this.#greet = () => resolve(true);
    });
    const late = new Promise<false>((resolve) => {
      timer = setTimeout(() => resolve(false), HELLO_MS);
    });
    const isGreeted = await Promise.race([greeting, late, this.closed.then(() => false)]);
    clearTimeout(timer);
    return isGreeted && !this.#isOver;
  }

  /** Tells Slack that it may forget this envelope. Nothing when the connection is gone: Slack delivers it again then. */
  acknowledge(envelopeId: string, answer: object | undefined): void {
    if (this.#isOver) return;
    this.#socket.send(
      JSON.stringify({ envelope_id: envelopeId, ...(answer === undefined ? {} : { payload: answer }) }),
    );
  }

  /** Resolves when it is gone, or when the other end is given up. */
  async close(): Promise<void> {
    this.#end();
    this.#socket.close();
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, CLOSE_MS);
    });
    await Promise.race([this.closed, late]);
    clearTimeout(timer);
    this.#socket.terminate?.();
    this.#gone();
  }

  #take(data: unknown): void {
    if (this.#isOver || typeof data !== 'string') return;
    this.#wait();
    const frame = frameIn(data);
    if (frame.type === 'hello') this.#greet();
    else this.#heard(frame);
  }

  #wait(): void {
    clearTimeout(this.#quiet);
    if (!this.#isOver) this.#quiet = setTimeout(() => void this.close(), this.#quietMs).unref();
  }

  #end(): void {
    this.#isOver = true;
    clearTimeout(this.#quiet);
  }
}

/** What is no JSON object is an empty frame, which says nothing. */
function frameIn(data: string): Frame {
  try {
    const value: unknown = JSON.parse(data);
    return typeof value === 'object' && value !== null ? (value as Frame) : {};
  } catch {
    return {};
  }
}
