import type { IncomingMessage, Provider } from './provider.js';
import { isSameSecret } from './signature.js';
import { answer, readCall, readJson, takeAll } from './webhook-call.js';

export interface JsonWebhookOptions {
  /** The header by which the platform shows the secret. Compared in constant time, before the body is read. */
  readonly header: string;
  readonly secret: string;
  /** The only path that is answered. Default: every path. */
  readonly path?: string | undefined;
  /** Longer bodies are refused with 413. Default 1,000,000. */
  readonly maxBytes?: number | undefined;
  /** The message of a body, or what is wrong with it. What it throws is answered with 500. */
  readonly read: (body: Record<string, unknown>) => IncomingMessage | string;
}

/**
 * Receives from a platform that posts JSON and shows a secret in a header. Answers 200 only when the message is safely
 * taken in, 503 when it is not, 401 for a wrong secret, 400 for what is no message.
 */
export function jsonWebhook(options: JsonWebhookOptions): NonNullable<Provider['webhook']> {
  const { header, secret, path, maxBytes = 1_000_000, read } = options;
  const refuseHeaders = (headers: Headers): string | undefined =>
    isSameSecret(headers.get(header) ?? '', secret) ? undefined : `${header}: missing or wrong`;
  return async (request, intake) => {
    const bytes = await readCall(request, { path, maxBytes, refuseHeaders });
    if (bytes instanceof Response) return bytes;
    const body = readJson(bytes);
    if (typeof body === 'string') return answer(400, body);
    const message = read(body);
    return typeof message === 'string' ? answer(400, message) : takeAll([message], intake);
  };
}
