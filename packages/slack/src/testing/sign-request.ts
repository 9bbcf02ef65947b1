import { createHmac } from 'node:crypto';

/** The two headers by which Slack signs the raw `body` of a request: its time, and `v0=` with the HMAC over `v0:time:body`. */
export function signRequest(signingSecret: string, body: string | Uint8Array, atMs: number): Record<string, string> {
  const seconds = Math.floor(atMs / 1000);
  const digest = createHmac('sha256', signingSecret).update(`v0:${seconds}:`).update(body).digest('hex');
  return { 'x-slack-request-timestamp': String(seconds), 'x-slack-signature': `v0=${digest}` };
}
