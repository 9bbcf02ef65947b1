import type { Intake, SendContext } from '@botmesh/core/spi';
import type { WhatsAppOptions } from '../src/options.js';
import { signedHeaders } from '../src/testing.js';
import { type WhatsApp, whatsapp } from '../src/whatsapp.js';

export const SECRET = 'the app secret';
export const TOKEN = 'EAAG-token-of-the-system-user';
export const VERIFY = 'a text of ours';
export const URL_OF_BOT = 'http://bot/whatsapp';
/** A number of the app. */
export const OURS = '106540352242922';

/** A provider with what every one needs. */
export function made(options: Partial<WhatsAppOptions> = {}): WhatsApp {
  return whatsapp({ token: TOKEN, appSecret: SECRET, verifyToken: VERIFY, ...options });
}

/** A call as Meta makes it. */
export function call(body: string | Uint8Array<ArrayBuffer>, secret = SECRET): Request {
  return new Request(URL_OF_BOT, { method: 'POST', body, headers: signedHeaders(secret, body) });
}

/** What the webhook answers. */
export async function ask(provider: WhatsApp, request: Request, intake: Intake): Promise<Response> {
  const answer = await provider.webhook?.(request, intake);
  if (answer === undefined) throw new Error('no webhook');
  return answer;
}

export const never: Intake = () => Promise.reject(new Error('nothing was to be taken in'));

export function sending(key = 'k:1:0', signal: AbortSignal = new AbortController().signal): SendContext {
  return { signal, fence: 1, key };
}
