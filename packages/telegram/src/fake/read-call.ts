import type { IncomingMessage } from 'node:http';

/** A call of the Bot API. */
export interface ReadCall {
  readonly token: string;
  readonly method: string;
  readonly payload: Readonly<Record<string, unknown>>;
  /** What was uploaded, by the member that has its name. */
  readonly files: Readonly<Record<string, File>>;
}

/** Undefined for a path that is none of the Bot API. */
export async function readCall(request: IncomingMessage): Promise<ReadCall | undefined> {
  const { pathname, searchParams } = new URL(request.url ?? '/', 'http://localhost');
  const [, token, method] = /^\/bot([^/]+)\/(\w+)$/.exec(pathname) ?? [];
  if (token === undefined || method === undefined) return undefined;
  const body = await bodyOf(request);
  const fields = await fieldsOf(request, body);
  const files = Object.fromEntries(Object.entries(fields).filter(([, value]) => value instanceof File));
  const named = Object.entries(fields).map(([name, value]) => [name, value instanceof File ? value.name : value]);
  const payload = { ...Object.fromEntries(searchParams), ...Object.fromEntries(named) } as ReadCall['payload'];
  return { token, method, payload, files: files as ReadCall['files'] };
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
  return Object.fromEntries(form);
}
