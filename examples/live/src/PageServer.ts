import { readFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { fileURLToPath } from 'node:url';
import type { View } from './Board.js';

const PAGE = fileURLToPath(new URL('../page.html', import.meta.url));
const LOOK_EVERY_MS = 150;
const LONGEST_BODY = 100_000;

/** What a person may do on the page. */
export interface Hands {
  send(chat: string, text: string): void;
  kill(replica: number): void;
  freeze(replica: number): void;
  thaw(replica: number): void;
  start(): void;
}

/** Serves the page to this host alone, tells it what changes, and takes its clicks. */
export class PageServer {
  readonly #look: () => Promise<View>;
  readonly #hands: Hands;
  readonly #server: Server;
  readonly #watching = new Set<ServerResponse>();
  #timer: NodeJS.Timeout | undefined;
  #last = '';
  #address = '';

  constructor(look: () => Promise<View>, hands: Hands) {
    this.#look = look;
    this.#hands = hands;
    this.#server = createServer((request, response) => {
      this.#answer(request, response).catch(() => response.destroy());
    });
  }

  /** Resolves to the page's address. Port 0 takes a free one. */
  async open(port: number): Promise<string> {
    await new Promise<void>((resolve, reject) => {
      this.#server.once('error', (error: NodeJS.ErrnoException) => reject(explain(error, port)));
      this.#server.listen(port, '127.0.0.1', resolve);
    });
    this.#address = `127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
    return `http://${this.#address}`;
  }

  async close(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    if (!this.#server.listening) return;
    const closed = new Promise((resolve) => this.#server.close(resolve));
    this.#server.closeAllConnections();
    await closed;
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { method, url, headers } = request;
    // Another site's page in the same browser may not click here.
    const isOwn =
      headers.host === this.#address && (headers.origin ?? `http://${this.#address}`) === `http://${this.#address}`;
    if (!isOwn) return reply(response, 403);
    if (method === 'GET' && url === '/') return servePage(response);
    if (method === 'GET' && url === '/events') return this.#watch(response);
    if (method !== 'POST') return reply(response, 404);
    return reply(response, this.#act(url ?? '', await readJson(request)) ? 204 : 400);
  }

  #act(url: string, body: Record<string, unknown>): boolean {
    const { chat, text, replica } = body;
    if (url === '/send' && typeof chat === 'string' && typeof text === 'string') {
      const name = chat
        .replace(/[\s:]+/g, ' ')
        .trim()
        .slice(0, 40);
      if (name === '') return false;
      this.#hands.send(name, text.replace(/\s+/g, ' ').trim());
      return true;
    }
    if (url === '/start') {
      this.#hands.start();
      return true;
    }
    if (typeof replica !== 'number') return false;
    if (url === '/kill') this.#hands.kill(replica);
    else if (url === '/freeze') this.#hands.freeze(replica);
    else if (url === '/thaw') this.#hands.thaw(replica);
    else return false;
    return true;
  }

  #watch(response: ServerResponse): void {
    response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-store' });
    this.#watching.add(response);
    response.on('close', () => this.#watching.delete(response));
    this.#last = '';
    this.#timer ??= setTimeout(() => void this.#tick(), 0);
  }

  /** Looks as long as somebody watches, and tells what is new. */
  async #tick(): Promise<void> {
    const view = await this.#look();
    const seen = JSON.stringify({ ...view, nowMs: 0 });
    if (seen !== this.#last) for (const response of this.#watching) response.write(`data: ${JSON.stringify(view)}\n\n`);
    this.#last = seen;
    if (this.#timer === undefined) return;
    this.#timer = this.#watching.size > 0 ? setTimeout(() => void this.#tick(), LOOK_EVERY_MS) : undefined;
  }
}

function explain(error: NodeJS.ErrnoException, port: number): Error {
  if (error.code === 'EADDRINUSE') return new Error(`port ${port} is in use: give another one with --port N`);
  if (error.code === 'EACCES')
    return new Error(`port ${port} may not be used by you: give one above 1023 with --port N`);
  return error;
}

function servePage(response: ServerResponse): void {
  response.writeHead(200, { 'content-type': 'text/html; charset=utf-8', 'cache-control': 'no-store' });
  response.end(readFileSync(PAGE));
}

function reply(response: ServerResponse, status: number): void {
  response.writeHead(status).end();
}

async function readJson(request: IncomingMessage): Promise<Record<string, unknown>> {
  let body = '';
  for await (const chunk of request.setEncoding('utf8')) {
    body += String(chunk);
    if (body.length > LONGEST_BODY) throw new Error('the request is too long');
  }
  try {
    const value: unknown = JSON.parse(body);
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {};
  } catch {
    return {};
  }
}
