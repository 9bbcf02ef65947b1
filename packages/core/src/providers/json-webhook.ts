import { readBody } from './body.js';
import type { IncomingMessage, Provider } from './provider.js';
import { isSameSecret } from './signature.js';
import { answer, take } from './webhook.js';

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
  return async (request, intake) => {
    if (path !== undefined && new URL(request.url).pathname !== path) return answer(404, 'no such path');
    if (request.method !== 'POST') return answer(405, 'send a POST', { allow: 'POST' });
    if (!isSameSecret(request.headers.get(header) ?? '', secret)) return answer(401, `${header}: missing or wrong`);
    const bytes = await readBody(request, maxBytes);
    if (bytes === undefined) return answer(413, `the body is longer than ${maxBytes} bytes`);
    const body = parse(bytes);
    if (typeof body === 'string') return answer(400, body);
    const message = read(body);
    return typeof message === 'string' ? answer(400, message) : take(message, intake);
  };
}

function parse(bytes: Uint8Array): Record<string, unknown> | string {
  let value: unknown;
  try {
    value = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes));
  } catch {
    return 'the body is not JSON in UTF-8';
  }
  const isObject = typeof value === 'object' && value !== null && !Array.isArray(value);
  return isObject ? (value as Record<string, unknown>) : 'the body is not a JSON object';
}
