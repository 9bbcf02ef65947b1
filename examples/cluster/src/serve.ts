import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Readable } from 'node:stream';

interface Answering {
  webhook(request: Request): Promise<Response>;
}

/** Serves a bot's webhook by Node's HTTP server. Workers of one cluster share the port. */
export async function serve(bot: Answering, port: number): Promise<{ port: number; close(): void }> {
  const server = createServer((incoming, outgoing) => void answer(bot, incoming, outgoing));
  server.listen(port);
  await once(server, 'listening');
  return { port: (server.address() as AddressInfo).port, close: () => void server.close() };
}

async function answer(bot: Answering, incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
  const response = await bot.webhook(toRequest(incoming));
  outgoing.writeHead(response.status, Object.fromEntries(response.headers)).end(await response.text());
}

function toRequest(incoming: IncomingMessage): Request {
  const { method = 'GET', url = '/', headers } = incoming;
  const init = { method, headers: headers as Record<string, string> };
  const hasBody = method !== 'GET' && method !== 'HEAD';
  return new Request(
    new URL(url, 'http://localhost'),
    hasBody ? { ...init, body: Readable.toWeb(incoming), duplex: 'half' } : init,
  );
}
