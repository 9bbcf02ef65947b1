// For the tests of this package: as much of the Bot API as the SDK's adapter calls, and a platform that delivers webhooks. It
// stays beside the fake of @botmesh/telegram, which knows one token, because here every replica has a token of its own, by
// which a test tells who sent what.
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';

export const SECRET = 'tests-own';

/** A message that a bot sent. */
export interface Sent {
  readonly chat: string;
  readonly text: string;
  /** What follows the colon in the token of who sent it: replicas that are to be told apart have one each. */
  readonly by: string;
}

/** One server for all replicas: what they send is kept in the order of its arrival. */
export class FakeTelegram implements AsyncDisposable {
  readonly sent: Sent[] = [];
  /** Whoever began to type: the SDK does so when it gets a message. */
  readonly typed: Omit<Sent, 'text'>[] = [];
  readonly #server: Server;
  #messages = 0;

  private constructor(server: Server) {
    this.#server = server;
  }

  static async open(): Promise<FakeTelegram> {
    const server = createServer();
    const api = new FakeTelegram(server);
    server.on('request', (request, response) => {
      const chunks: Buffer[] = [];
      request.on('data', (chunk: Buffer) => chunks.push(chunk));
      request.on('end', () => {
        const [, by = '', method = ''] = /^\/bot[^:]*:(.*)\/(\w+)$/.exec(request.url ?? '') ?? [];
        const text = Buffer.concat(chunks).toString();
        const result = api.#answer(by, method, text === '' ? {} : (JSON.parse(text) as Record<string, unknown>));
        response.setHeader('content-type', 'application/json');
        response.end(JSON.stringify({ ok: true, result }));
      });
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    return api;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** The texts that a chat was sent, in order. */
  texts(chat: number | string): string[] {
    return this.sent.filter((each) => each.chat === String(chat)).map(({ text }) => text);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  #answer(by: string, method: string, fields: Record<string, unknown>): unknown {
    if (method === 'getMe') return { id: 99, is_bot: true, first_name: 'Bot', username: 'test_bot' };
    if (method === 'getWebhookInfo') return { url: 'https://bot.example', pending_update_count: 0 };
    const name = String(fields.chat_id);
    if (method === 'sendChatAction') this.typed.push({ chat: name, by });
    if (method !== 'sendMessage') return true;
    const chat = { id: Number(name), type: 'private' };
    this.sent.push({ chat: name, text: String(fields.text), by });
    return { message_id: 1_000_000 + ++this.#messages, date: 0, chat, text: fields.text };
  }
}

/** An update with a message, as Telegram tells it. */
export function update(id: number, chat: number, text: string, more: object = {}): Record<string, unknown> {
  const from = { id: chat, is_bot: false, first_name: 'Ana' };
  return {
    update_id: id,
    message: { message_id: id, date: 1, chat: { id: chat, type: 'private' }, from, text, ...more },
  };
}

/** The request by which Telegram delivers it. */
export function delivery(body: unknown, secret: string = SECRET): Request {
  return new Request('https://bot.example/telegram', {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'x-telegram-bot-api-secret-token': secret },
    body: typeof body === 'string' ? body : JSON.stringify(body),
  });
}
