import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Refusal } from './cloud-rules.js';

/** What a call is answered with. */
export interface Answer {
  readonly status: number;
  readonly type?: string;
  readonly body: Buffer | string;
  readonly headers?: Readonly<Record<string, string>>;
}

/** Not answered at all, or cut off. */
export type NoAnswer = 'silence' | 'cut';

export function json(status: number, value: unknown): Answer {
  return { status, body: JSON.stringify(value) };
}

export function refusal({ status, body }: Refusal, headers: Readonly<Record<string, string>> = {}): Answer {
  return { status, body: JSON.stringify(body), headers };
}

export function write(answer: Answer | NoAnswer, response: ServerResponse): void {
  if (answer === 'cut') response.destroy();
  if (typeof answer === 'string') return;
  const { status, type = 'application/json', body, headers = {} } = answer;
  response.writeHead(status, { 'content-type': type, ...headers }).end(body);
}

export async function bytesOf(request: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks);
}

export function parsed(bytes: Buffer): Record<string, unknown> | undefined {
  try {
    return JSON.parse(bytes.toString()) as Record<string, unknown>;
  } catch {
    return undefined;
  }
}
