import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

/** Longer than a replica takes; one that is frozen answers never. */
const PATIENCE_MS = 1_500;
/** What is said of one connection only. */
const OF_THE_CONNECTION = ['host', 'connection', 'content-length', 'transfer-encoding', 'expect', 'keep-alive'];

/** Passes each request on to the next of several ports of this host, and answers 502 for one that does not answer. */
export class Balancer {
  targets: () => readonly number[] = () => [];
  readonly #server: Server;
  readonly #patienceMs: number;
  #count = 0;

  private constructor(patienceMs: number) {
    this.#patienceMs = patienceMs;
    this.#server = createServer((request, response) => void this.#pass(request, response));
  }

  static async start(patienceMs = PATIENCE_MS): Promise<Balancer> {
    const balancer = new Balancer(patienceMs);
    balancer.#server.listen(0, '127.0.0.1');
    await once(balancer.#server, 'listening');
    return balancer;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}/`;
  }

  async stop(): Promise<void> {
    this.#server.closeAllConnections();
    this.#server.close();
    await once(this.#server, 'close');
  }

  async #pass(request: IncomingMessage, response: ServerResponse): Promise<void> {
    try {
      const chunks: Uint8Array[] = [];
      for await (const chunk of request) chunks.push(chunk as Uint8Array);
      const targets = this.targets();
      const port = targets[this.#count++ % targets.length];
      const { method = 'POST', url = '/' } = request;
      const signal = AbortSignal.timeout(this.#patienceMs);
      const body = method === 'POST' ? { body: Buffer.concat(chunks) } : {};
      const answer = await fetch(`http://127.0.0.1:${port}${url}`, {
        method,
        headers: headersOf(request),
        signal,
        ...body,
      });
      const type = answer.headers.get('content-type');
      response.writeHead(answer.status, type === null ? {} : { 'content-type': type }).end(await answer.text());
    } catch {
      response.writeHead(502).end();
    }
  }
}

function headersOf({ headers }: IncomingMessage): Record<string, string> {
  const passed = Object.entries(headers).filter(([name]) => !OF_THE_CONNECTION.includes(name));
  return Object.fromEntries(passed.map(([name, value]) => [name, String(value)]));
}
