import { BotmeshError, DeliveryError, RateLimitedError } from '@botmesh/core/spi';

/** What the Bot API answered to a call that did not work. Its message has no token and no text in it. */
export class ApiError extends Error {
  override readonly name = 'ApiError';
  readonly status: number;
  readonly retryAfterMs: number | undefined;
  readonly migratedTo: number | undefined;

  constructor(method: string, answer: Answer) {
    super(`Telegram: ${method}: ${answer.error_code ?? 0} ${answer.description ?? ''}`);
    this.status = answer.error_code ?? 0;
    const { retry_after, migrate_to_chat_id } = answer.parameters ?? {};
    this.retryAfterMs = retry_after === undefined ? undefined : retry_after * 1000;
    this.migratedTo = migrate_to_chat_id;
  }
}

interface Answer {
  readonly ok: boolean;
  readonly result?: unknown;
  readonly error_code?: number;
  readonly description?: string;
  readonly parameters?: { readonly retry_after?: number; readonly migrate_to_chat_id?: number };
}

export type Call = (method: string, payload: object, signal?: AbortSignal) => Promise<unknown>;

/** Calls methods of the Bot API. */
export function client(token: string, apiRoot: string): Call {
  return async (method, payload, signal) => {
    let answer: Answer;
    try {
      const response = await fetch(`${apiRoot}/bot${token}/${method}`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify(payload),
        ...(signal === undefined ? {} : { signal }),
      });
      answer = (await response.json()) as Answer;
    } catch (error) {
      if (signal?.aborted) throw signal.reason;
      // The cause has the address in it, and that the token: only what it is called goes on.
      throw new DeliveryError(`Telegram: ${method}: no answer (${error instanceof Error ? error.name : 'unknown'})`);
    }
    if (answer.ok) return answer.result;
    throw new ApiError(method, answer);
  };
}

/** The error that the Bot knows, of one that the API gave. */
export function deliveryErrorOf(error: unknown): unknown {
  if (error instanceof BotmeshError || !(error instanceof ApiError)) return error;
  const { retryAfterMs, message } = error;
  if (error.status === 429) return new RateLimitedError(retryAfterMs ?? 1_000, { scope: 'chat', cause: error });
  return new DeliveryError(message, { cause: error });
}
