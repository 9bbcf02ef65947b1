import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

/** Longer than a replica takes; one that is frozen answers never. */
const PATIENCE_MS = 1_500;

/** Passes each request on to the next of several ports of this host, and answers 502 for one that does not answer. */
export class Balancer {
  targets: () => readonly number[] = () => [];
  readonly #server: Server;
  #count = 0;

  private constructor() {
    this.#server = createServer((request, response) => void this.#pass(request, response));
  }

  static async start(): Promise<Balancer> {
    const balancer = new Balancer();
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
      let body = '';
      for await (const chunk of request) body += String(chunk);
      const targets = this.targets();
      const port = targets[this.#count++ % targets.length];
      const headers = { 'x-telegram-bot-api-secret-token': String(request.headers['x-telegram-bot-api-secret-token']) };
      const signal = AbortSignal.timeout(PATIENCE_MS);
      const answer = await fetch(`http://127.0.0.1:${port}/`, { method: 'POST', headers, body, signal });
      response.writeHead(answer.status).end(await answer.text());
    } catch {
      response.writeHead(502).end();
    }
  }
}
