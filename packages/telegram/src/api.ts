import { BotmeshError, DeliveryError, DeliveryUnknownError, RateLimitedError } from '@botmesh/core/spi';

/** Longer than the longest poll. */
const LIMIT_MS = 60_000;
/** The call has not left, so nothing of it can have arrived. */
const NOT_CONNECTED = new Set(['ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN', 'ENETUNREACH', 'EHOSTUNREACH']);

/** What the Bot API answered to a call that did not work. Its message has no token and no text in it. */
export class ApiError extends Error {
  override readonly name = 'ApiError';
  readonly status: number;
  readonly retryAfterMs: number | undefined;
  readonly migratedTo: number | undefined;

  constructor(method: string, answer: Partial<Answer>) {
    super(`Telegram: ${method}: ${answer.error_code ?? 0} ${withoutQuotes(answer.description ?? '')}`);
    this.status = answer.error_code ?? 0;
    const { retry_after, migrate_to_chat_id } = answer.parameters ?? {};
    this.retryAfterMs = retry_after === undefined ? undefined : retry_after * 1000;
    this.migratedTo = migrate_to_chat_id;
  }
}

/** Telegram quotes pieces of what was sent, where it could not be read. */
function withoutQuotes(description: string): string {
  return description.replace(/".*"/s, '"…"');
}

interface Answer {
  readonly ok: boolean;
  readonly result?: unknown;
  readonly error_code?: number;
  readonly description?: string;
  readonly parameters?: { readonly retry_after?: number; readonly migrate_to_chat_id?: number };
}

export type Call = (method: string, payload: object, signal?: AbortSignal) => Promise<unknown>;

/** Calls methods of the Bot API. One that has no answer after `limitMs` is given up. */
export function client(token: string, apiRoot: string, limitMs = LIMIT_MS): Call {
  return async (method, payload, signal) => {
    const limit = AbortSignal.timeout(limitMs);
    let status = 0;
    let answer: Partial<Answer> | null;
    try {
      const response = await fetch(`${apiRoot}/bot${token}/${method}`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify(payload),
        // The token goes nowhere else.
        redirect: 'error',
        signal: signal === undefined ? limit : AbortSignal.any([signal, limit]),
      });
      ({ status } = response);
      answer = (await response.json()) as Partial<Answer> | null;
    } catch (error) {
      if (signal?.aborted) throw signal.reason;
      throw unanswered(method, error, status);
    }
    if (answer?.ok === true) return answer.result;
    if (typeof answer?.error_code === 'number') throw new ApiError(method, answer);
    throw unanswered(method, undefined, status);
  };
}

/**
 * The cause has the address in it, and that the token: only what it is called goes on. What something before Telegram
 * answered, a gateway say, tells nothing of whether Telegram was asked.
 */
function unanswered(method: string, error: unknown, status: number): Error {
  const { code } = ((error as Error | undefined)?.cause ?? {}) as { code?: unknown };
  if (typeof code === 'string' && NOT_CONNECTED.has(code)) {
    return new DeliveryError(`Telegram: ${method}: could not be reached (${code})`);
  }
  const why = status === 0 ? (error instanceof Error ? error.name : 'unknown') : `HTTP ${status}`;
  return new DeliveryUnknownError(`Telegram: ${method}: no answer (${why}), so nobody knows whether it was done`);
}

/** The error that the Bot knows, of one that the API gave. */
export function deliveryErrorOf(error: unknown): unknown {
  if (error instanceof BotmeshError || !(error instanceof ApiError)) return error;
  const { retryAfterMs, message } = error;
  if (error.status === 429) return new RateLimitedError(retryAfterMs ?? 1_000, { scope: 'chat', cause: error });
  return new DeliveryError(message, { cause: error });
}
