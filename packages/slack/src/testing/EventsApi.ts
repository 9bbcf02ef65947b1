import { type Payload, type PayloadType, textOf } from './payloads.js';
import { signRequest } from './sign-request.js';

export interface HttpDelivery {
  readonly url: string;
  readonly signingSecret: string;
  readonly type: PayloadType;
  readonly payload: Payload;
  /** 0 for the first delivery. */
  readonly retryNum: number;
  readonly retryReason: string;
  readonly ackMs: number;
}

export interface HttpAnswer {
  /** 0 when there was none in time. */
  readonly status: number;
  readonly text: string;
}

/** Delivers one payload by a signed request, in the form that Slack gives it. Does not reject. */
export async function postSigned(delivery: HttpDelivery): Promise<HttpAnswer> {
  const { url, signingSecret, type, payload, retryNum, retryReason, ackMs } = delivery;
  const body = bodyOf(type, payload);
  const headers: Record<string, string> = {
    'content-type': type === 'events_api' ? 'application/json' : 'application/x-www-form-urlencoded',
    ...signRequest(signingSecret, body, Date.now()),
  };
  if (retryNum > 0) {
    headers['x-slack-retry-num'] = String(retryNum);
    headers['x-slack-retry-reason'] = retryReason;
  }
  try {
    const answer = await fetch(url, { method: 'POST', headers, body, signal: AbortSignal.timeout(ackMs) });
    return { status: answer.status, text: await answer.text() };
  } catch {
    return { status: 0, text: '' };
  }
}

export function bodyOf(type: PayloadType, payload: Payload): string {
  if (type === 'events_api') return JSON.stringify(payload);
  if (type === 'interactive') return new URLSearchParams({ payload: JSON.stringify(payload) }).toString();
  const fields = Object.entries(payload).map(([name, value]): [string, string] => [name, textOf(value)]);
  return new URLSearchParams(fields).toString();
}
