import {
  BadInputError,
  CoordinationUnavailableError,
  LeaseLostError,
  LifecycleError,
  TooLongError,
} from '../errors.js';
import { readBody } from './body.js';
import type { IncomingMessage, Intake } from './provider.js';

/** Which calls of a platform are let in, cheapest question first. */
export interface CallRules {
  /** The only path that is answered. Undefined: every path. */
  readonly path?: string | undefined;
  /** Longer bodies are refused with 413, and not read to their end. */
  readonly maxBytes: number;
  /** What is wrong with the headers, before anything of the body is read: answered with 401. Undefined when nothing is. */
  readonly refuseHeaders?: (headers: Headers) => string | undefined;
  /** What is wrong with the signature of the raw body, before anything of it is parsed: 401. Undefined when nothing is. */
  readonly refuseBody?: (headers: Headers, body: Uint8Array) => string | undefined;
}

/** The raw body of a call that keeps the rules, or the answer to one that does not. Parses nothing. */
export async function readCall(request: Request, rules: CallRules): Promise<Uint8Array | Response> {
  const { path, maxBytes, refuseHeaders, refuseBody } = rules;
  if (path !== undefined && new URL(request.url).pathname !== path) return answer(404, 'no such path');
  if (request.method !== 'POST') return answer(405, 'send a POST', { allow: 'POST' });
  const wrong = refuseHeaders?.(request.headers);
  if (wrong !== undefined) return answer(401, wrong);
  let body: Uint8Array | undefined;
  try {
    body = await readBody(request, maxBytes);
  } catch {
    return answer(400, 'the body broke off');
  }
  if (body === undefined) return answer(413, `the body is longer than ${maxBytes} bytes`);
  const forged = refuseBody?.(request.headers, body);
  return forged === undefined ? body : answer(401, forged);
}

/** The JSON object in a body, or what is wrong with it. */
export function readJson(body: Uint8Array): Record<string, unknown> | string {
  let value: unknown;
  try {
    value = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(body));
  } catch {
    return 'the body is not JSON in UTF-8';
  }
  const isObject = typeof value === 'object' && value !== null && !Array.isArray(value);
  return isObject ? (value as Record<string, unknown>) : 'the body is not a JSON object';
}

/**
 * Takes in all messages of one call, in their order, and answers: 200 only when every one is safely taken in, also those
 * that were before; 503 when one is not, so that the platform delivers all of them again; 400 when one never can be, 413 when
 * that is for its length.
 *
 * Of a batch that failed in part, what was taken in stays: it is a duplicate in the redelivery.
 *
 * @throws what `intake` rejects with, when that is nothing it should
 */
export async function takeAll(messages: readonly IncomingMessage[], intake: Intake): Promise<Response> {
  // All calls before the first await: a call fixes the place of its message.
  const outcomes = await Promise.allSettled(messages.map(async (message) => intake(message)));
  const errors: unknown[] = outcomes.flatMap((outcome) => (outcome.status === 'rejected' ? [outcome.reason] : []));
  if (errors.some(isPassing)) return answer(503, 'not taken in; send it again', { 'retry-after': '1' });
  const bad = errors.find((error) => error instanceof BadInputError);
  if (errors.length > 0 && bad === undefined) throw errors[0];
  if (bad !== undefined) return answer(bad instanceof TooLongError ? 413 : 400, bad.message);
  const isNew = outcomes.some((outcome) => outcome.status === 'fulfilled' && outcome.value === 'accepted');
  return Response.json({ status: messages.length === 0 ? 'nothing' : isNew ? 'accepted' : 'duplicate' });
}

function isPassing(error: unknown): boolean {
  return (
    error instanceof CoordinationUnavailableError || error instanceof LifecycleError || error instanceof LeaseLostError
  );
}

/** An answer that says what is wrong, as JSON `{ error }`. Put nothing of the call into it. */
export function answer(status: number, error: string, headers: Record<string, string> = {}): Response {
  return Response.json({ error }, { status, headers });
}
