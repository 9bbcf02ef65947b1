import { DeliveryUnknownError, RateLimitedError } from '@botmesh/core/spi';
import type { GraphError } from './cloud.js';
import { explain, refused, WhatsAppError } from './error-codes.js';
import type { Settings } from './options.js';

const PAUSES_MS = {
  /** One message in six seconds to one person is what lasts. */
  pair: 6_000,
  /** The throughput of a number is counted by the second. */
  number: 1_000,
  /** The limits of accounts and apps are counted by the hour. */
  account: 60_000,
  temporary: 2_000,
};

/** The connection was never made, so nothing left. */
const NOT_CONNECTED = new Set([
  'ECONNREFUSED',
  'ENOTFOUND',
  'EAI_AGAIN',
  'ENETUNREACH',
  'EHOSTUNREACH',
  'UND_ERR_CONNECT_TIMEOUT',
]);

export interface Call {
  readonly method: 'GET' | 'POST' | 'DELETE';
  readonly url: string;
  readonly phoneNumberId: string;
  readonly signal?: AbortSignal | undefined;
  readonly body?: Readonly<Record<string, unknown>> | FormData;
}

/**
 * Calls the Graph API with the token. Resolves with its answer when it did what was asked.
 *
 * @throws WhatsAppError when it surely did not, RateLimitedError when it asks for a pause first
 * @throws DeliveryUnknownError when nobody knows: the time limit, a connection that broke, a proxy's answer
 */
export async function callGraph(settings: Settings, call: Call): Promise<Response> {
  const { method, url, phoneNumberId, signal, body } = call;
  const token = await settings.tokenOf(phoneNumberId);
  signal?.throwIfAborted();
  const limit = AbortSignal.timeout(settings.timeoutMs);
  const headers: Record<string, string> = { authorization: `Bearer ${token}` };
  if (body !== undefined && !(body instanceof FormData)) headers['content-type'] = 'application/json';
  let response: Response;
  try {
    response = await fetch(url, {
      method,
      headers,
      // The token goes nowhere else.
      redirect: 'error',
      signal: signal === undefined ? limit : AbortSignal.any([signal, limit]),
      ...(body === undefined ? {} : { body: body instanceof FormData ? body : JSON.stringify(body) }),
    });
  } catch (error) {
    throw unanswered(error, limit.aborted, settings.timeoutMs);
  }
  if (response.ok) return response;
  throw await refusal(response);
}

/** The cause would carry the address, with the number in it: its code says what there is to say. */
function unanswered(error: unknown, isLate: boolean, timeoutMs: number): Error {
  const { code } = ((error as Error).cause ?? {}) as { code?: unknown };
  if (typeof code === 'string' && NOT_CONNECTED.has(code)) {
    return new WhatsAppError('temporary', `the Graph API could not be reached (${code}).`, {
      retryAfterMs: PAUSES_MS.temporary,
    });
  }
  const why = isLate
    ? `no answer in ${timeoutMs} ms`
    : `the call broke off (${typeof code === 'string' ? code : 'aborted'})`;
  return new DeliveryUnknownError(`whatsapp: ${why}, so nobody knows whether the message was sent.`);
}

async function refusal(response: Response): Promise<Error> {
  const { status, headers } = response;
  const error = await graphError(response);
  if (error === undefined) {
    // Not the API's own words: something before it answered, and it may have been asked.
    if (status >= 500) return new DeliveryUnknownError(`whatsapp: HTTP ${status} without a reason, so nobody knows.`);
    return new WhatsAppError('other', `refused with HTTP ${status}, without a reason.`);
  }
  const { code, fbtrace_id: trace } = error;
  const explained = explain(code);
  if (!explained.isPassing) return refused(explained, status, { trace });
  const retryAfterMs = askedMs(headers) ?? pauseMs(explained.reason, code);
  const cause = refused(explained, status, { retryAfterMs, trace });
  if (explained.reason === 'temporary') return cause;
  return new RateLimitedError(retryAfterMs, {
    scope: explained.reason === 'pair-rate-limited' ? 'chat' : 'account',
    cause,
  });
}

function pauseMs(reason: string, code: number): number {
  if (reason === 'temporary') return PAUSES_MS.temporary;
  if (reason === 'pair-rate-limited') return PAUSES_MS.pair;
  return code === 130429 ? PAUSES_MS.number : PAUSES_MS.account;
}

async function graphError(response: Response): Promise<GraphError | undefined> {
  try {
    const { error } = (await response.json()) as { error?: Partial<GraphError> };
    if (typeof error?.code !== 'number') return undefined;
    // Meta's words may quote what was sent, so they are not kept.
    const trace = typeof error.fbtrace_id === 'string' ? error.fbtrace_id.slice(0, 40) : undefined;
    return { code: error.code, ...(trace === undefined ? {} : { fbtrace_id: trace }) };
  } catch {
    return undefined;
  }
}

/** How long the API asks to wait: by `retry-after` in seconds, or by the minutes in the header on the account's use. */
function askedMs(headers: Headers): number | undefined {
  const seconds = Number(headers.get('retry-after') ?? Number.NaN);
  if (seconds >= 0) return seconds * 1000;
  try {
    const usage = JSON.parse(headers.get('x-business-use-case-usage') ?? 'null') as unknown;
    const minutes = Object.values((usage ?? {}) as Record<string, { estimated_time_to_regain_access?: unknown }[]>)
      .flat()
      .map((each) => Number(each.estimated_time_to_regain_access));
    const longest = Math.max(0, ...minutes.filter(Number.isFinite));
    return longest > 0 ? longest * 60_000 : undefined;
  } catch {
    return undefined;
  }
}
