import {
  BadInputError,
  CoordinationUnavailableError,
  type IncomingMessage,
  type Intake,
  LeaseLostError,
  LifecycleError,
  type Provider,
} from '@botmesh/core/spi';
import { type Body, messageOf } from './parse.js';
import { claimOf, isSigned } from './verify.js';

export interface ReceiverSetup {
  readonly secrets: readonly string[];
  readonly path: string | undefined;
  readonly maxBytes: number;
}

/** Answers what Slack posts: 200 only when it is taken in, also when it was before; 503 lets Slack deliver it again. */
export function receiver({ secrets, path, maxBytes }: ReceiverSetup): NonNullable<Provider['webhook']> {
  return async (request, intake) => {
    if (path !== undefined && new URL(request.url).pathname !== path) return answer(404);
    if (request.method !== 'POST') return answer(405, { allow: 'POST' });
    const claim = claimOf(request.headers);
    if (claim === undefined) return answer(401);
    const bytes = await readUpTo(request, maxBytes);
    if (bytes === undefined) return answer(413);
    if (!isSigned(claim, bytes, secrets, Date.now())) return answer(401);
    const body = parse(bytes, request.headers.get('content-type') ?? '');
    if (body === undefined) return answer(400);
    if (body.type === 'url_verification') return Response.json({ challenge: body.challenge });
    if (body.ssl_check !== undefined) return answer(200);
    const message = messageOf(body);
    return message === undefined ? answer(200) : take(message, intake);
  };
}

async function take(message: IncomingMessage, intake: Intake): Promise<Response> {
  try {
    await intake(message);
    return answer(200);
  } catch (error) {
    if (error instanceof BadInputError) return answer(400);
    const isPassing =
      error instanceof CoordinationUnavailableError ||
      error instanceof LifecycleError ||
      error instanceof LeaseLostError;
    if (isPassing) return answer(503, { 'retry-after': '1' });
    throw error;
  }
}

/** Undefined for what Slack never sends. */
function parse(bytes: Uint8Array, type: string): Body | undefined {
  try {
    const text = new TextDecoder('utf-8', { fatal: true }).decode(bytes);
    const value: unknown = type.startsWith('application/x-www-form-urlencoded') ? ofForm(text) : JSON.parse(text);
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Body) : undefined;
  } catch {
    return undefined;
  }
}

/** An interaction is JSON in one field; a command is a form. */
function ofForm(text: string): unknown {
  const form = new URLSearchParams(text);
  const payload = form.get('payload');
  return payload === null ? Object.fromEntries(form) : JSON.parse(payload);
}

async function readUpTo(request: Request, maxBytes: number): Promise<Uint8Array | undefined> {
  if (Number(request.headers.get('content-length')) > maxBytes) return undefined;
  const chunks: Uint8Array[] = [];
  let length = 0;
  for await (const chunk of (request.body ?? []) as AsyncIterable<Uint8Array>) {
    length += chunk.byteLength;
    if (length > maxBytes) return undefined;
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

function answer(status: number, headers: Record<string, string> = {}): Response {
  return new Response(null, { status, headers });
}
