import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';

/** Up is from the client to the server. What a cut holds back arrives when the way opens again, as in a network. */
export type Way = 'open' | 'cut' | 'cut-up' | 'cut-down';

interface Held {
  readonly isUp: boolean;
  readonly pass: () => void;
}

/** A TCP way to one server that a test cuts, slows and breaks. Cuts are silent: sockets stay open. */
export class TestProxy implements AsyncDisposable {
  readonly #server: Server;
  readonly #pairs = new Set<readonly [Socket, Socket]>();
  #held: Held[] = [];
  #way: Way = 'open';
  #delayMs = 0;
  #target: number;

  private constructor(target: number) {
    this.#target = target;
    this.#server = createServer((client) => this.#join(client));
  }

  static async start(target: number): Promise<TestProxy> {
    const proxy = new TestProxy(target);
    await new Promise<void>((resolve, reject) => {
      proxy.#server.once('error', reject);
      proxy.#server.listen(0, '127.0.0.1', resolve);
    });
    return proxy;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  get url(): string {
    return `nats://127.0.0.1:${this.port}`;
  }

  /** How many connections pass through it now. */
  get connections(): number {
    return this.#pairs.size;
  }

  set(way: Way): void {
    this.#way = way;
    const held = this.#held;
    this.#held = [];
    for (const one of held) {
      if (this.#isShut(one.isUp)) this.#held.push(one);
      else one.pass();
    }
  }

  /** Slows each way by that much. */
  delay(ms: number): void {
    this.#delayMs = ms;
  }

  /** Breaks every connection with a reset, and forgets what was under way. */
  reset(): void {
    for (const pair of this.#pairs) for (const socket of pair) socket.resetAndDestroy();
  }

  /** Later connections go to another port; those there are, stay. */
  turnTo(port: number): void {
    this.#target = port;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.set('open');
    for (const pair of this.#pairs) for (const socket of pair) socket.destroy();
    await new Promise<void>((resolve) => {
      this.#server.close(() => resolve());
    });
  }

  #join(client: Socket): void {
    const server = connect({ port: this.#target, host: '127.0.0.1', noDelay: true });
    client.setNoDelay(true);
    const pair = [client, server] as const;
    this.#pairs.add(pair);
    const end = () => {
      this.#pairs.delete(pair);
      client.destroy();
      server.destroy();
    };
    for (const socket of pair) socket.on('close', end).on('error', end);
    this.#carry(client, server, true);
    this.#carry(server, client, false);
  }

  #carry(from: Socket, to: Socket, isUp: boolean): void {
    let last = Promise.resolve();
    from.on('data', (bytes) => {
      const delayMs = this.#delayMs;
      last = last.then(async () => {
        if (delayMs > 0) await new Promise((resolve) => setTimeout(resolve, delayMs));
        if (this.#isShut(isUp)) await new Promise<void>((pass) => this.#held.push({ isUp, pass }));
        if (!to.destroyed) to.write(bytes);
      });
    });
  }

  #isShut(isUp: boolean): boolean {
    if (this.#way === 'cut') return true;
    return this.#way === (isUp ? 'cut-up' : 'cut-down');
  }
}
