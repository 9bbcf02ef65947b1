import { DeliveryError, type Provider, RateLimitedError } from '@botmesh/core/spi';

const LONGEST_MS = 30_000;

export interface SenderSetup {
  readonly token: string;
  readonly apiUrl: string;
}

/** Posts replies into their chat, in its thread where it is one. Fields besides `text` are Slack's own: `blocks`, `attachments`. */
export function sender({ token, apiUrl }: SenderSetup): Provider['send'] {
  return async (chat, reply, { signal }) => {
    if (chat.startsWith('user:') || chat.startsWith('team:')) {
      throw new DeliveryError('slack: this chat has no channel to reply into. Open one with the Web API first.');
    }
    const [channel, thread] = chat.split(':', 2);
    const body = JSON.stringify({ ...reply, channel, ...(thread === undefined ? {} : { thread_ts: thread }) });
    const headers = { 'content-type': 'application/json; charset=utf-8', authorization: `Bearer ${token}` };
    const until = AbortSignal.any([signal, AbortSignal.timeout(LONGEST_MS)]);
    let response: Response;
    let found: { ok?: unknown; error?: unknown };
    try {
      response = await fetch(`${apiUrl}chat.postMessage`, { method: 'POST', headers, body, signal: until });
      found = (await response.json()) as typeof found;
    } catch (cause) {
      throw new DeliveryError('slack: the Web API did not answer', { cause });
    }
    if (found.ok === true) return;
    const retryAfterMs = Number(response.headers.get('retry-after') ?? Number.NaN) * 1000;
    // Slack counts messages by channel.
    if (response.status === 429 && retryAfterMs >= 0) throw new RateLimitedError(retryAfterMs, { scope: 'chat' });
    const error = typeof found.error === 'string' ? found.error : 'no error';
    throw new DeliveryError(`slack: chat.postMessage answered ${response.status}, ${error}`);
  };
}
