import {
  answer,
  type CallRules,
  type Intake,
  isHmac,
  isSameSecret,
  readCall,
  readJson,
  takeAll,
} from '@botmesh/core/spi';
import { readChatName } from './chat-name.js';
import type { Settings } from './options.js';
import { type Brought, readUpdates } from './updates.js';

const SIGNATURE = 'x-hub-signature-256';
const LONGEST_CHALLENGE = 200;

/**
 * Answers a call of Meta: its challenge, or what it brings. 200 only when every message is safely taken in and every
 * listener has returned.
 */
export function receiver(settings: Settings): (request: Request, intake: Intake) => Promise<Response> {
  const { path, maxBytes, secrets } = settings;
  const rules: CallRules = {
    path,
    maxBytes,
    refuseHeaders: (headers) => (digestIn(headers) === undefined ? `${SIGNATURE}: missing or malformed` : undefined),
    refuseBody: (headers, body) =>
      isHmac(digestIn(headers) ?? '', secrets, body)
        ? undefined
        : `${SIGNATURE}: wrong. Is appSecret that of this app?`,
  };
  return async (request, intake) => {
    if (request.method === 'GET') return challenge(new URL(request.url), settings);
    const body = await readCall(request, rules);
    if (body instanceof Response) return body;
    const json = readJson(body);
    const brought = typeof json === 'string' ? json : readUpdates(json);
    if (typeof brought === 'string') return answer(400, brought);
    return take(served(brought, settings), intake, settings);
  };
}

function digestIn(headers: Headers): string | undefined {
  return /^sha256=([0-9a-f]{64})$/i.exec(headers.get(SIGNATURE) ?? '')?.[1];
}

/** Meta asks once, when the webhook is set up, whether this is whom it was told of. */
function challenge(url: URL, { path, verifyToken }: Settings): Response {
  if (path !== undefined && url.pathname !== path) return answer(404, 'no such path');
  const query = url.searchParams;
  if (query.get('hub.mode') !== 'subscribe') return answer(400, 'hub.mode: expected subscribe');
  if (!isSameSecret(query.get('hub.verify_token') ?? '', verifyToken)) return answer(403, 'hub.verify_token: wrong');
  const text = query.get('hub.challenge') ?? '';
  if (text.length > LONGEST_CHALLENGE) return answer(400, 'hub.challenge: too long');
  return new Response(text, { headers: { 'content-type': 'text/plain', 'x-content-type-options': 'nosniff' } });
}

/** What is written to numbers of others is no message of this bot. */
function served({ messages, statuses, updates }: Brought, { serves }: Settings): Brought {
  const isServed = ({ chat }: { chat: string }): boolean => serves(readChatName(chat)?.phoneNumberId ?? '');
  const strays = messages.filter((message) => !isServed(message));
  return {
    messages: messages.filter(isServed),
    statuses: statuses.filter(isServed),
    updates: [...updates, ...strays.map(({ raw }) => ({ field: 'messages', value: raw }))],
  };
}

async function take(brought: Brought, intake: Intake, { onStatus, onUpdate }: Settings): Promise<Response> {
  const { messages, statuses, updates } = brought;
  const taken = await takeAll(messages, intake);
  if (!taken.ok) return taken;
  // One that throws is told of by the bot, which answers 500: Meta delivers again, and the messages are duplicates then.
  for (const status of statuses) await onStatus(status);
  for (const update of updates) await onUpdate(update);
  return taken;
}
