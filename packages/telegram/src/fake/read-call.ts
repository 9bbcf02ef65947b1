import type { IncomingMessage } from 'node:http';

/** A call of the Bot API. */
export interface ReadCall {
  readonly token: string;
  readonly method: string;
  readonly payload: Readonly<Record<string, unknown>>;
}

/** Undefined for a path that is none of the Bot API. */
export async function readCall(request: IncomingMessage): Promise<ReadCall | undefined> {
  const { pathname, searchParams } = new URL(request.url ?? '/', 'http://localhost');
  const [, token, method] = /^\/bot([^/]+)\/(\w+)$/.exec(pathname) ?? [];
  if (token === undefined || method === undefined) return undefined;
  const body = await bodyOf(request);
  return { token, method, payload: { ...Object.fromEntries(searchParams), ...(await fieldsOf(request, body)) } };
}

async function bodyOf(request: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of request as AsyncIterable<Buffer>) chunks.push(chunk);
  return Buffer.concat(chunks);
}

async function fieldsOf(request: IncomingMessage, body: Buffer): Promise<Record<string, unknown>> {
  const type = request.headers['content-type'] ?? '';
  if (body.length === 0) return {};
  if (type.includes('json')) return JSON.parse(body.toString('utf8')) as Record<string, unknown>;
  const form = await new Response(body, { headers: { 'content-type': type } }).formData();
  return Object.fromEntries([...form].map(([name, value]) => [name, typeof value === 'string' ? value : value.name]));
}
