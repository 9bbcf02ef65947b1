import {
  BadInputError,
  ConfigError,
  CoordinationUnavailableError,
  checkOptionNames,
  DeliveryError,
  LeaseLostError,
  LifecycleError,
  shown,
} from '../errors.js';
import { type Clock, systemClock } from '../time/clock.js';
import { readBody } from './body.js';
import type { IncomingMessage, Intake, Provider, Reply, SendContext } from './provider.js';
import { readHeader, SIGNATURE_HEADER, sign, verify } from './signature.js';

const LONGEST_POST_MS = 30_000;

export interface WebhookOptions {
  /** Signs what comes in and what is sent to `replyUrl`. Several while they change: the first signs, each may verify. */
  secret: string | readonly string[];
  /** The only path that is answered. Default: every path. */
  path?: string;
  /** Longer bodies are refused with 413. Default 1,000,000. */
  maxBytes?: number;
  /** How far a signature's time may be from now, in milliseconds. Default five minutes. */
  toleranceMs?: number;
  /** Gets the replies. Throw DeliveryError when one cannot be delivered. */
  send?: (chat: string, reply: Reply, context: SendContext) => Promise<void> | void;
  /** Gets the replies by signed POST, as JSON `{ chat, key, fence, ...reply }`. Instead of `send`. */
  replyUrl?: string | URL;
  clock?: Clock;
}

const NAMES: { readonly [Name in keyof Required<WebhookOptions>]: true } = {
  secret: true,
  path: true,
  maxBytes: true,
  toleranceMs: true,
  send: true,
  replyUrl: true,
  clock: true,
};

/**
 * Messages by signed HTTP calls: POST JSON `{ id, chat, text, from?, kind? }` with the header of `sign`. Answers 200 only when
 * the message is safely taken in, also for one taken in before; 503 when it is not: send it again, with the same id.
 */
export function webhook(options: WebhookOptions): Provider {
  checkOptions(options);
  const secrets = secretsOf(options);
  const send = senderOf(options, secrets[0] ?? '');
  const { path, maxBytes = 1_000_000, toleranceMs = 300_000, clock = systemClock } = options;

  async function receive(request: Request, intake: Intake): Promise<Response> {
    if (path !== undefined && new URL(request.url).pathname !== path) return answer(404, 'no such path');
    if (request.method !== 'POST') return answer(405, 'send a POST', { allow: 'POST' });
    const header = request.headers.get(SIGNATURE_HEADER);
    const claim = readHeader(header);
    if (typeof claim === 'string') return answer(401, `${SIGNATURE_HEADER}: ${claim}`);
    const body = await readBody(request, maxBytes);
    if (body === undefined) return answer(413, `the body is longer than ${maxBytes} bytes`);
    const verdict = verify(header, body, { secrets, nowMs: clock.wallMs(), toleranceMs });
    if (verdict !== 'valid') return answer(401, `${SIGNATURE_HEADER}: ${verdict}`);
    const message = parse(body);
    if (typeof message === 'string') return answer(400, message);
    return take(message, intake);
  }

  return { name: 'webhook', start() {}, stop() {}, webhook: receive, send };
}

/** Answers by what became of the message. */
export async function take(message: IncomingMessage, intake: Intake): Promise<Response> {
  try {
    return Response.json({ status: await intake(message) });
  } catch (error) {
    if (error instanceof BadInputError) return answer(400, error.message);
    const isPassing =
      error instanceof CoordinationUnavailableError ||
      error instanceof LifecycleError ||
      error instanceof LeaseLostError;
    if (isPassing) return answer(503, 'not taken in; send it again', { 'retry-after': '1' });
    throw error;
  }
}

/** The message, or what is wrong with it. */
function parse(body: Uint8Array): IncomingMessage | string {
  let value: unknown;
  try {
    value = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(body));
  } catch {
    return 'the body is not JSON in UTF-8';
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return 'the body is not a JSON object';
  const { id, chat, text, from, kind, ...rest } = value as Record<string, unknown>;
  if (typeof id !== 'string' || id === '') return 'id: expected a non-empty string';
  if (typeof chat !== 'string' || chat === '') return 'chat: expected a non-empty string';
  if (typeof text !== 'string') return 'text: expected a string';
  if (from !== undefined && from !== null && typeof from !== 'string') return 'from: expected a string, or nothing';
  if (kind !== undefined && kind !== null && typeof kind !== 'string') return 'kind: expected a string, or nothing';
  const raw = Object.keys(rest).length > 0 ? rest : undefined;
  return { id, chat, text, from: from ?? undefined, kind: kind ?? undefined, raw };
}

function checkOptions(options: unknown): void {
  if (typeof options !== 'object' || options === null) {
    throw new ConfigError('webhook(): no options. Pass { secret, send } or { secret, replyUrl }.');
  }
  checkOptionNames('webhook()', options, NAMES);
  const { path, maxBytes = 0, toleranceMs = 0 } = options as Partial<WebhookOptions>;
  if (path !== undefined && !(typeof path === 'string' && path.startsWith('/'))) {
    throw new ConfigError(`webhook(): path is ${JSON.stringify(path)}. Begin it with a slash, or leave it out.`);
  }
  for (const [name, value] of Object.entries({ maxBytes, toleranceMs })) {
    if (typeof value === 'number' && value >= 0) continue;
    throw new ConfigError(`webhook(): ${name} is ${shown(value)}. Give a number from 0 up.`);
  }
}

function secretsOf({ secret }: WebhookOptions): readonly string[] {
  const secrets: readonly unknown[] = Array.isArray(secret) ? secret : [secret];
  if (secrets.length === 0 || secrets.some((each) => typeof each !== 'string' || each === '')) {
    throw new ConfigError('webhook(): no secret. Pass { secret }, a long random text that the sender knows too.');
  }
  return secrets as string[];
}

function senderOf({ send, replyUrl, clock = systemClock }: WebhookOptions, secret: string): Provider['send'] {
  if ((send === undefined) === (replyUrl === undefined)) {
    throw new ConfigError('webhook(): pass either { send } or { replyUrl }, to say where replies go.');
  }
  if (send !== undefined) {
    if (typeof send !== 'function') throw new ConfigError(`webhook(): send is a ${typeof send}. Pass a function.`);
    return send;
  }
  const url = URL.canParse(String(replyUrl)) ? new URL(String(replyUrl)) : undefined;
  if (url?.protocol !== 'http:' && url?.protocol !== 'https:') {
    throw new ConfigError('webhook(): replyUrl is no http or https address. Give one with its scheme and host.');
  }
  return (chat, reply, context) => post(url, { chat, reply, context, secret, nowMs: clock.wallMs() });
}

interface Posted {
  chat: string;
  reply: Reply;
  context: SendContext;
  secret: string;
  nowMs: number;
}

async function post(url: URL, { chat, reply, context, secret, nowMs }: Posted): Promise<void> {
  const body = JSON.stringify({ ...reply, chat, key: context.key, fence: context.fence });
  const headers = { 'content-type': 'application/json', [SIGNATURE_HEADER]: sign(secret, body, nowMs) };
  const signal = AbortSignal.any([context.signal, AbortSignal.timeout(LONGEST_POST_MS)]);
  let response: Response;
  try {
    response = await fetch(url, { method: 'POST', body, headers, signal, redirect: 'error' });
    await response.body?.cancel();
  } catch (cause) {
    throw new DeliveryError(`webhook: ${url.origin} did not answer`, { cause });
  }
  if (response.ok) return;
  const retryAfterMs = Number(response.headers.get('retry-after') ?? Number.NaN) * 1000;
  const message = `webhook: ${url.origin} answered ${response.status}`;
  throw new DeliveryError(message, retryAfterMs >= 0 ? { retryAfterMs } : {});
}

export function answer(status: number, error: string, headers: Record<string, string> = {}): Response {
  return Response.json({ error }, { status, headers });
}
