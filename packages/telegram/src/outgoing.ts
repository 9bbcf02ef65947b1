import type { Reply } from '@botmesh/core/spi';
import { type ChatPlace, readChatName } from './chat-name.js';
import { TelegramError } from './errors.js';

/** A button under a message: what comes back as the text of a `callback` when it is pressed, or where it leads. */
export type TelegramButton =
  | {
      /** 1 to 64 bytes. */
      readonly id: string;
      readonly title: string;
    }
  | { readonly title: string; readonly url: string };

/** A file by its `file_id`, by an address that Telegram fetches, or by what is in it. A text is an id or an address. */
export type OutgoingMedia =
  | string
  | { readonly id: string }
  | { readonly link: string }
  | { readonly data: Uint8Array<ArrayBuffer>; readonly filename?: string; readonly type?: string };

/**
 * What `ctx.reply` takes besides `{ text }`. One of the kinds of content at most; the text is the caption of media. Members
 * that are not listed are left alone, as they may be meant for another platform.
 */
export interface TelegramReply extends Reply {
  /** Under the text or the media. A list is one row; a list of lists has several. */
  readonly buttons?: readonly TelegramButton[] | readonly (readonly TelegramButton[])[];
  /** The number of the message that it answers. */
  readonly replyTo?: number;
  readonly photo?: OutgoingMedia;
  readonly video?: OutgoingMedia;
  readonly audio?: OutgoingMedia;
  readonly voice?: OutgoingMedia;
  readonly document?: OutgoingMedia;
  readonly animation?: OutgoingMedia;
  /** Has no caption: leave the text empty. */
  readonly sticker?: OutgoingMedia;
  /** Shows for five seconds that the bot writes; the text is not sent. */
  readonly typing?: boolean;
  /** Puts text and buttons in place of those of this message of the bot; with an empty text, only the buttons. */
  readonly edit?: number;
  /** Removes this message; the text is not sent. */
  readonly remove?: number;
  /** Under a message, by its number. An empty emoji takes it away. */
  readonly reaction?: { readonly to: number; readonly emoji: string };
  /** Answers the `callback` query that had this id, with the text as a notice. */
  readonly answer?: string;
  /** Parameters of the Bot API, as they are: `{ parse_mode: 'HTML' }`. */
  readonly telegram?: Readonly<Record<string, unknown>>;
}

export interface ApiCall {
  readonly method: string;
  /** Has `Uint8Array`s under `file`, if there is one. */
  readonly payload: Readonly<Record<string, unknown>>;
  readonly file?: { readonly member: string; readonly name: string; readonly blob: Blob };
}

type Fields = Readonly<Record<string, unknown>>;

const MEDIA = ['photo', 'video', 'audio', 'voice', 'document', 'animation', 'sticker'] as const;
const CONTENTS = [...MEDIA, 'typing', 'edit', 'remove', 'reaction', 'answer'] as const;
const LONGEST_ID_BYTES = 64;

/**
 * The call that sends a reply.
 *
 * @throws TelegramError with the reason `invalid`, naming the member and not what it holds
 */
export function callOf(chat: string, reply: TelegramReply): ApiCall {
  const given = CONTENTS.filter((name) => reply[name] !== undefined && reply[name] !== false);
  if (given.length > 1) throw invalid(`${given.join(' and ')} are in one reply. Send one of them in each`);
  const { text, telegram = {} } = reply;
  if (reply.answer !== undefined) {
    return { method: 'answerCallbackQuery', payload: { callback_query_id: reply.answer, text, ...telegram } };
  }
  const { method, payload, file } = contentOf(addressOf(placeOf(chat)), reply, given[0]);
  return { method, payload: { ...payload, ...telegram }, ...(file === undefined ? {} : { file }) };
}

interface Address {
  /** The chat; a message in it has a number. */
  readonly to: Fields;
  /** The chat with its topic, for what is new there. */
  readonly into: Fields;
}

function contentOf({ to, into }: Address, reply: TelegramReply, kind: (typeof CONTENTS)[number] | undefined): ApiCall {
  const { text } = reply;
  const markup = reply.buttons === undefined ? {} : { reply_markup: { inline_keyboard: rowsOf(reply.buttons) } };
  const around = {
    ...(reply.replyTo === undefined ? {} : { reply_parameters: { message_id: reply.replyTo } }),
    ...markup,
  };
  switch (kind) {
    case undefined:
      return { method: 'sendMessage', payload: { ...into, text, ...around } };
    case 'typing':
      return { method: 'sendChatAction', payload: { ...into, action: 'typing' } };
    case 'remove':
      return { method: 'deleteMessage', payload: { ...to, message_id: reply.remove } };
    case 'edit':
      if (text === '')
        return { method: 'editMessageReplyMarkup', payload: { ...to, message_id: reply.edit, ...markup } };
      return { method: 'editMessageText', payload: { ...to, message_id: reply.edit, text, ...markup } };
    case 'reaction': {
      const { to: message, emoji } = reply.reaction ?? { to: 0, emoji: '' };
      const reaction = emoji === '' ? [] : [{ type: 'emoji', emoji }];
      return { method: 'setMessageReaction', payload: { ...to, message_id: message, reaction } };
    }
    case 'answer':
      throw new Error('Never: it has no chat.');
    default: {
      if (kind === 'sticker' && text !== '') throw invalid('sticker has no caption: leave the text empty');
      const method = `send${kind[0]!.toUpperCase()}${kind.slice(1)}`;
      const caption = text === '' ? {} : { caption: text };
      const { file, value } = mediaOf(kind, reply[kind]);
      const payload = { ...into, ...(value === undefined ? {} : { [kind]: value }), ...caption, ...around };
      return { method, payload, ...(file === undefined ? {} : { file }) };
    }
  }
}

function placeOf(chat: string): ChatPlace {
  const place = readChatName(chat);
  if (place !== undefined) return place;
  throw invalid('this chat cannot be written to: its update came from no chat and from nobody');
}

function addressOf({ id, topic, business }: ChatPlace): Address {
  const to = { ...(business === undefined ? {} : { business_connection_id: business }), chat_id: id };
  return { to, into: topic === undefined ? to : { ...to, message_thread_id: topic } };
}

function mediaOf(member: string, media: unknown): { value?: string; file?: ApiCall['file'] } {
  if (typeof media === 'string' && media !== '') return { value: media };
  const { id, link, data, filename = member, type } = (media ?? {}) as Fields;
  const given = [id, link, data].filter((each) => each !== undefined);
  if (given.length === 1 && typeof (id ?? link) === 'string') return { value: (id ?? link) as string };
  if (given.length !== 1 || !(data instanceof Uint8Array)) {
    throw invalid(`${member} needs an id, a link or data, which is a Uint8Array`);
  }
  const blob = new Blob([data as Uint8Array<ArrayBuffer>], typeof type === 'string' ? { type } : {});
  return { file: { member, name: String(filename), blob } };
}

function rowsOf(buttons: unknown): Fields[][] {
  if (!Array.isArray(buttons)) throw invalid('buttons is no list');
  const given = buttons as unknown[];
  const rows = given.some((each) => Array.isArray(each)) ? given : [given];
  return rows.map((row) => {
    if (!Array.isArray(row)) throw invalid('buttons has rows and buttons side by side');
    return (row as Fields[]).map(buttonOf);
  });
}

function buttonOf(button: Fields): Fields {
  const { id, title, url } = button ?? {};
  if (typeof title !== 'string' || title === '')
    throw invalid('a button has no title. Give { id, title } or { title, url }');
  if (typeof url === 'string') return { text: title, url };
  const bytes = typeof id === 'string' ? Buffer.byteLength(id) : 0;
  if (bytes < 1 || bytes > LONGEST_ID_BYTES) {
    throw invalid(`the id of a button has ${bytes} bytes, and Telegram takes 1 to ${LONGEST_ID_BYTES}`);
  }
  return { text: title, callback_data: id };
}

function invalid(what: string): TelegramError {
  return new TelegramError('invalid', `nothing was sent: ${what}.`);
}
