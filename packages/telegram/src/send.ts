import type { Provider, Reply, SendContext } from '@botmesh/core/spi';
import { ApiError, type Call, deliveryErrorOf } from './api.js';

/** A button under a message: what it gives back as a `callback`, or where it leads. */
export interface Button {
  readonly text: string;
  readonly data?: string;
  readonly url?: string;
}

/** A button as other channels of botmesh take it, too: pressed, it gives its `id` back. It stands in a row of its own. */
export interface PlainButton {
  readonly id: string;
  readonly title: string;
}

/** What a reply may have besides its text. */
export interface TelegramReply extends Reply {
  /** Rows of buttons, or a list of plain ones. */
  readonly buttons?: readonly (readonly Button[] | PlainButton)[];
  /** A file by its address or its `file_id`, with the text as its caption. */
  readonly photo?: string;
  readonly video?: string;
  readonly audio?: string;
  readonly voice?: string;
  readonly document?: string;
  readonly animation?: string;
  readonly sticker?: string;
  /** Shows that the bot writes; the text is not sent. */
  readonly typing?: boolean;
  /** Puts the text in place of that of this message. */
  readonly edit?: number;
  /** Removes this message; the text is not sent. */
  readonly remove?: number;
  /** Answers the button whose `callback` had this id, with the text as a notice. */
  readonly answer?: string;
  /** Parameters of the Bot API, as they are. */
  readonly telegram?: Readonly<Record<string, unknown>>;
}

const MEDIA = ['photo', 'video', 'audio', 'voice', 'document', 'animation', 'sticker'] as const;
/** What a group that became a supergroup is called now, by its old name. */
const LONGEST_MEMORY = 1_000;

export function sender(call: Call): Provider['send'] {
  const moved = new Map<string, number>();
  return async (chat, reply, { signal }: SendContext) => {
    const { method, payload } = callOf(chat, reply as TelegramReply);
    try {
      const to = moved.get(String(payload.chat_id));
      await call(method, to === undefined ? payload : { ...payload, chat_id: to }, signal);
    } catch (error) {
      if (!(error instanceof ApiError) || error.migratedTo === undefined) throw deliveryErrorOf(error);
      if (moved.size >= LONGEST_MEMORY) moved.clear();
      moved.set(String(payload.chat_id), error.migratedTo);
      await call(method, { ...payload, chat_id: error.migratedTo }, signal).catch((again: unknown) => {
        throw deliveryErrorOf(again);
      });
    }
  };
}

/** The call that sends a reply. */
export function callOf(chat: string, reply: TelegramReply): { method: string; payload: Record<string, unknown> } {
  const { text, buttons, telegram = {} } = reply;
  if (reply.answer !== undefined) {
    return { method: 'answerCallbackQuery', payload: { callback_query_id: reply.answer, text, ...telegram } };
  }
  const [id = '', topic] = chat.split('/');
  const to = { chat_id: /^-?\d+$/.test(id) ? Number(id) : id };
  const inTopic = topic === undefined ? to : { ...to, message_thread_id: Number(topic) };
  if (reply.typing) return { method: 'sendChatAction', payload: { ...inTopic, action: 'typing', ...telegram } };
  if (reply.remove !== undefined) return { method: 'deleteMessage', payload: { ...to, message_id: reply.remove } };
  const markup = buttons === undefined ? {} : { reply_markup: { inline_keyboard: buttons.map(rowOf) } };
  if (reply.edit !== undefined) {
    return { method: 'editMessageText', payload: { ...to, message_id: reply.edit, text, ...markup, ...telegram } };
  }
  const media = MEDIA.find((kind) => reply[kind] !== undefined);
  if (media === undefined) return { method: 'sendMessage', payload: { ...inTopic, text, ...markup, ...telegram } };
  const caption = text === '' ? {} : { caption: text };
  const method = `send${media[0]!.toUpperCase()}${media.slice(1)}`;
  return { method, payload: { ...inTopic, [media]: reply[media], ...caption, ...markup, ...telegram } };
}

function rowOf(row: readonly Button[] | PlainButton): object[] {
  if ('id' in row) return [{ text: row.title, callback_data: row.id }];
  return row.map(({ text, data, url }) => (url === undefined ? { text, callback_data: data ?? text } : { text, url }));
}
