import type { Reply, SendContext } from '@botmesh/core/spi';
import { type ChatName, readChatName } from './chat-name.js';
import { WhatsAppError } from './error-codes.js';
import { callGraph } from './graph.js';
import type { Settings } from './options.js';
import { bodyOf, type WhatsAppReply } from './outgoing.js';

/**
 * Sends a reply. The Cloud API takes no idempotency key, so a call without an answer leaves it unknown whether it was sent.
 */
export async function send(settings: Settings, chat: string, reply: Reply, context: SendContext): Promise<void> {
  const to = partsOf(chat);
  const { signal, key } = context;
  const response = await callGraph(settings, {
    method: 'POST',
    url: messagesUrl(settings, to),
    phoneNumberId: to.phoneNumberId,
    body: bodyOf(to, reply as WhatsAppReply, key),
    signal,
  });
  const id = await idIn(response);
  if (id !== undefined) settings.onSent({ chat, id, key });
}

/** Shows who wrote the message two blue ticks and, with `isTyping`, that an answer is being written, for up to 25 s. */
export async function markRead(
  settings: Settings,
  chat: string,
  messageId: string,
  { isTyping = false, signal }: { isTyping?: boolean; signal?: AbortSignal },
): Promise<void> {
  const to = partsOf(chat);
  const response = await callGraph(settings, {
    method: 'POST',
    url: messagesUrl(settings, to),
    phoneNumberId: to.phoneNumberId,
    signal,
    body: {
      messaging_product: 'whatsapp',
      status: 'read',
      message_id: messageId,
      ...(isTyping ? { typing_indicator: { type: 'text' } } : {}),
    },
  });
  await response.body?.cancel();
}

/** @throws WhatsAppError for what is no name of a chat */
export function partsOf(chat: string): ChatName {
  const to = readChatName(chat);
  if (to !== undefined) return to;
  throw new WhatsAppError('invalid', "nothing was sent: the chat is none. Give '<phone number id>:<number>'.");
}

function messagesUrl({ baseUrl }: Settings, { phoneNumberId }: ChatName): string {
  return `${baseUrl}/${encodeURIComponent(phoneNumberId)}/messages`;
}

/** It is sent, whether or not this can be read. */
async function idIn(response: Response): Promise<string | undefined> {
  try {
    const { messages } = (await response.json()) as { messages?: { id?: unknown }[] };
    const id = messages?.[0]?.id;
    return typeof id === 'string' ? id : undefined;
  } catch {
    return undefined;
  }
}
