import type { Provider } from '@botmesh/core/spi';
import { readChatName } from './chat-name.js';
import { type Downloaded, type DownloadOptions, download, upload } from './media.js';
import { settle, type WhatsAppOptions } from './options.js';
import { receiver } from './receive.js';
import { markRead, send } from './send.js';

/** The provider, and what can be done at WhatsApp besides replying. A chat is `<phone number id>:<number>`. */
export interface WhatsApp extends Provider {
  /**
   * Shows that a message was read and, with `isTyping`, that an answer is being written: until it is sent, or for 25 s.
   *
   * @throws WhatsAppError, RateLimitedError, DeliveryUnknownError as a reply does
   */
  markRead(chat: string, messageId: string, options?: { isTyping?: boolean; signal?: AbortSignal }): Promise<void>;
  /**
   * Fetches media that was sent to this chat, by its id: Meta keeps it for 30 days.
   *
   * @throws as `markRead`, and WhatsAppError with the reason `media` when it is too long, or elsewhere than at Meta
   */
  download(chat: string, mediaId: string, options?: DownloadOptions): Promise<Downloaded>;
  /**
   * Uploads media, and gives the id by which the number of this chat can send it, for 30 days.
   *
   * @throws as `markRead`
   */
  upload(
    chat: string,
    data: Uint8Array<ArrayBuffer> | Blob,
    options: { type: string; filename?: string; signal?: AbortSignal },
  ): Promise<string>;
}

/**
 * WhatsApp, by the Cloud API. Answers Meta 200 only when all messages of a call are safely taken in. A message has one place in
 * its chat's queue, by its id, however often it is delivered.
 *
 * The Cloud API takes no idempotency key: a reply whose call got no answer may have been sent. It is counted as unknown, and
 * `onUnknownSend` of the Bot decides.
 *
 * @throws ConfigError naming the option that cannot work
 */
export function whatsapp(options: WhatsAppOptions): WhatsApp {
  const settings = settle(options);
  return {
    name: 'whatsapp',
    start() {},
    stop() {},
    webhook: receiver(settings),
    accountOf: (chat) => readChatName(chat)?.phoneNumberId ?? chat,
    send: (chat, reply, context) => send(settings, chat, reply, context),
    markRead: (chat, messageId, how = {}) => markRead(settings, chat, messageId, how),
    download: (chat, mediaId, how = {}) => download(settings, chat, mediaId, how),
    upload: (chat, data, how) => upload(settings, chat, data, how),
  };
}
