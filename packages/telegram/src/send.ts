import type { Provider, SendContext } from '@botmesh/core/spi';
import { ApiError, type Call, deliveryErrorOf } from './api.js';
import { type ApiCall, callOf, type TelegramReply } from './outgoing.js';

/** A reply that Telegram has, with the number of its message. */
export interface Sent {
  readonly chat: string;
  readonly id: number;
  /** The same for the same reply of the same message in every attempt. */
  readonly key: string;
}

export interface SendSettings {
  readonly timeoutMs: number;
  readonly onSent: (sent: Sent) => void;
}

const MOST_MOVES_KEPT = 1_000;

/** What is so already was done by an attempt before this one, or is too late to matter. */
const DONE: Readonly<Record<string, RegExp>> = {
  editMessageText: /message is not modified/,
  editMessageReplyMarkup: /message is not modified/,
  deleteMessage: /message to delete not found/,
  answerCallbackQuery: /query is too old/,
};

/**
 * Sends replies. A group that became a supergroup is followed: Telegram refuses the old name and says the new one, which this
 * replica remembers. The Bot API takes no idempotency key, so a call without an answer leaves it unknown.
 */
export function sender(call: Call, { timeoutMs, onSent }: SendSettings): Provider['send'] {
  const moved = new Map<unknown, number>();
  return async (chat, reply, { signal, key }: SendContext) => {
    const made = callOf(chat, reply as TelegramReply);
    const { chat_id: old } = made.payload;
    const run = () => call(made.method, bodyOf(made, moved.get(old)), { signal, timeoutMs });
    let result: unknown;
    try {
      result = await run().catch((error: unknown) => {
        if (!(error instanceof ApiError) || error.migratedTo === undefined) throw error;
        if (moved.size >= MOST_MOVES_KEPT) moved.clear();
        moved.set(old, error.migratedTo);
        return run();
      });
    } catch (error) {
      if (error instanceof ApiError && DONE[made.method]?.test(error.description)) return;
      throw deliveryErrorOf(error);
    }
    const id = ((result ?? {}) as { message_id?: unknown }).message_id;
    if (typeof id === 'number') onSent({ chat, id, key });
  };
}

function bodyOf({ payload, file }: ApiCall, movedTo: number | undefined): object {
  const to = movedTo === undefined ? payload : { ...payload, chat_id: movedTo };
  if (file === undefined) return to;
  const form = new FormData();
  for (const [name, value] of Object.entries(to)) {
    if (value !== undefined) form.set(name, typeof value === 'string' ? value : JSON.stringify(value));
  }
  form.set(file.member, file.blob, file.name);
  return form;
}
