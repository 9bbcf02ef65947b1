import { DeliveryUnknownError, RateLimitedError } from '@botmesh/core/spi';
import { reasonOf, TelegramError } from './errors.js';

const LONGEST_DESCRIPTION = 200;
const UNREACHABLE_PAUSE_MS = 2_000;

/** The connection was never made, so nothing left. */
const NOT_CONNECTED = new Set([
  'ECONNREFUSED',
  'ENOTFOUND',
  'EAI_AGAIN',
  'ENETUNREACH',
  'EHOSTUNREACH',
  'UND_ERR_CONNECT_TIMEOUT',
]);

/** What the Bot API answered to a call that did not work. Its message has no token and no text in it. */
export class ApiError extends Error {
  override readonly name = 'ApiError';
  readonly status: number;
  /** Telegram's words, without what they quote: that may be somebody's text. */
  readonly description: string;
  readonly retryAfterMs: number | undefined;
  readonly migratedTo: number | undefined;

  constructor(method: string, { error_code: status = 0, description = '', parameters = {} }: Answer) {
    const told = description.replace(/".*"/s, '"…"').slice(0, LONGEST_DESCRIPTION);
    super(`Telegram: ${method}: ${status} ${told}`);
    this.status = status;
    this.description = told;
    const { retry_after, migrate_to_chat_id } = parameters;
    this.retryAfterMs = retry_after === undefined ? undefined : retry_after * 1000;
    this.migratedTo = migrate_to_chat_id;
  }
}

interface Answer {
  readonly ok?: boolean;
  readonly result?: unknown;
  readonly error_code?: number;
  readonly description?: string;
  readonly parameters?: { readonly retry_after?: number; readonly migrate_to_chat_id?: number };
}

export interface CallLimits {
  readonly signal?: AbortSignal | undefined;
  /** How long it may take. Default: as long as it takes. */
  readonly timeoutMs?: number | undefined;
}

export type Call = (method: string, payload: object, limits?: CallLimits) => Promise<unknown>;

/**
 * Calls methods of the Bot API. The payload is sent as JSON, or as the form that it is.
 *
 * @throws ApiError when it answers that it did not do it
 * @throws TelegramError when it could not be reached, DeliveryUnknownError when it did not answer
 */
export function client(token: string, apiRoot: string): Call {
  return async (method, payload, limits = {}) => {
    const isForm = payload instanceof FormData;
    const response = await request(`${apiRoot}/bot${token}/${method}`, method, limits, {
      method: 'POST',
      ...(isForm ? {} : { headers: { 'content-type': 'application/json' } }),
      body: isForm ? payload : JSON.stringify(payload),
    });
    const answer = await answerIn(response, method, limits.signal);
    if (answer.ok === true) return answer.result;
    throw new ApiError(method, { ...answer, error_code: answer.error_code ?? response.status });
  };
}

/** A call whose errors have no address in them, as that has the token. */
export async function request(
  url: string,
  what: string,
  { signal, timeoutMs }: CallLimits,
  init: RequestInit = {},
): Promise<Response> {
  const limit = timeoutMs === undefined ? undefined : AbortSignal.timeout(timeoutMs);
  const signals = [signal, limit].filter((each) => each !== undefined);
  try {
    return await fetch(url, { ...init, redirect: 'error', signal: AbortSignal.any(signals) });
  } catch (error) {
    if (signal?.aborted) throw signal.reason;
    throw unanswered(what, error, limit?.aborted === true ? timeoutMs : undefined);
  }
}

/** The error that the Bot knows, of one that the API gave. */
export function deliveryErrorOf(error: unknown): unknown {
  if (!(error instanceof ApiError)) return error;
  const { retryAfterMs, message, status, description } = error;
  // Telegram does not say whose limit it is. That of the chat is the one that is met first.
  if (status === 429) return new RateLimitedError(retryAfterMs ?? 1_000, { scope: 'chat', cause: error });
  if (status >= 500) return unknown(message);
  return new TelegramError(reasonOf(status, description), message.replace('Telegram: ', ''), { status, cause: error });
}

function unanswered(what: string, error: unknown, timeoutMs: number | undefined): Error {
  const { code } = ((error as Error).cause ?? {}) as { code?: unknown };
  if (typeof code === 'string' && NOT_CONNECTED.has(code)) {
    return new TelegramError('unreachable', `${what}: the Bot API could not be reached (${code}).`, {
      retryAfterMs: UNREACHABLE_PAUSE_MS,
    });
  }
  const why =
    timeoutMs === undefined
      ? `the call broke off (${typeof code === 'string' ? code : 'closed'})`
      : `no answer in ${timeoutMs} ms`;
  return unknown(`Telegram: ${what}: ${why}`);
}

async function answerIn(response: Response, method: string, signal: AbortSignal | undefined): Promise<Answer> {
  let text = '';
  try {
    text = await response.text();
    const answer = JSON.parse(text) as Answer | null;
    if (typeof answer === 'object' && answer !== null && typeof answer.ok === 'boolean') return answer;
  } catch {
    if (signal?.aborted) throw signal.reason;
  }
  // Not the API's own words: something before it answered.
  if (response.status >= 400 && response.status < 500) return { ok: false, error_code: response.status };
  throw unknown(`Telegram: ${method}: HTTP ${response.status} without an answer`);
}

function unknown(why: string): DeliveryUnknownError {
  return new DeliveryUnknownError(`${why}, so nobody knows whether it was done.`);
}
