import type { IncomingMessage, ServerResponse } from 'node:http';

/** What answers requests: a replica's `webhook`. */
export interface Answering {
  readonly webhook: (request: Request) => Promise<Response>;
}

/**
 * The listener of a `node:http` server, or an Express handler placed before any body parser, that answers by the
 * replica's `webhook`. Bodies beyond four megabytes are cut off with 413. Never rejects.
 */
export function nodeListener({ webhook }: Answering): (incoming: IncomingMessage, outgoing: ServerResponse) => void {
  return (incoming, outgoing) => void answer(webhook, incoming, outgoing);
}

/** More than any platform sends in a call. */
const MAX_BYTES = 4_000_000;

async function answer(
  webhook: Answering['webhook'],
  incoming: IncomingMessage,
  outgoing: ServerResponse,
): Promise<void> {
  try {
    const body = await bodyOf(incoming);
    const response =
      body === undefined ? new Response(null, { status: 413 }) : await webhook(requestOf(incoming, body));
    outgoing.writeHead(response.status, Object.fromEntries(response.headers));
    outgoing.end(Buffer.from(await response.arrayBuffer()));
  } catch {
    // The caller has gone, or sent what is no request.
    if (!outgoing.headersSent) outgoing.writeHead(400);
    outgoing.end();
  }
}

async function bodyOf(incoming: IncomingMessage): Promise<Buffer | undefined> {
  const chunks: Buffer[] = [];
  let length = 0;
  for await (const chunk of incoming as AsyncIterable<Buffer>) {
    length += chunk.length;
    if (length > MAX_BYTES) return undefined;
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

function requestOf({ method = 'GET', url = '/', headers }: IncomingMessage, body: Buffer): Request {
  const given = new Headers();
  for (const [name, value] of Object.entries(headers)) {
    if (value !== undefined) given.set(name, Array.isArray(value) ? value.join(', ') : value);
  }
  const hasBody = method !== 'GET' && method !== 'HEAD';
  return new Request(new URL(url, 'http://localhost'), { method, headers: given, ...(hasBody ? { body } : {}) });
}
