import type { Reply } from '@botmesh/core/spi';
import { type ChatName, isUserId } from './chat-name.js';
import { WhatsAppError } from './error-codes.js';

/** By the id of something uploaded, or by a link that Meta fetches. The reply's text is the caption. */
export type OutgoingMedia = ({ readonly id: string } | { readonly link: string }) & {
  /** Of documents. */
  readonly filename?: string;
};

export interface ReplyButton {
  /** What comes back as the text of the message when it is pressed. */
  readonly id: string;
  /** At most 20 characters. */
  readonly title: string;
}

export interface ReplyList {
  /** What opens the list. At most 20 characters. */
  readonly button: string;
  readonly sections: readonly {
    /** Required where there are several. */
    readonly title?: string;
    readonly rows: readonly { readonly id: string; readonly title: string; readonly description?: string }[];
  }[];
}

/**
 * What `ctx.reply` takes besides `{ text }`. One of the kinds of content at most; the text is the body of buttons and lists,
 * and the caption of media. Members that are not listed are left alone, as they may be meant for another platform.
 */
export interface WhatsAppReply extends Reply {
  /** The id of the message that it answers. */
  readonly replyTo?: string;
  /** Whether a link in the text is shown with a picture. */
  readonly previewUrl?: boolean;
  readonly image?: OutgoingMedia;
  readonly video?: OutgoingMedia;
  readonly audio?: OutgoingMedia;
  readonly document?: OutgoingMedia;
  readonly sticker?: OutgoingMedia;
  /** One to three. */
  readonly buttons?: readonly ReplyButton[];
  /** Ten rows at most. */
  readonly list?: ReplyList;
  /** Above and below buttons or a list. At most 60 characters each. */
  readonly header?: string;
  readonly footer?: string;
  /** What may be sent when the window is closed. `components` as the Cloud API takes them. */
  readonly template?: { readonly name: string; readonly language: string; readonly components?: readonly unknown[] };
  /** Under a message, by its id. An empty emoji takes it away. */
  readonly reaction?: { readonly to: string; readonly emoji: string };
  readonly location?: {
    readonly latitude: number;
    readonly longitude: number;
    readonly name?: string;
    readonly address?: string;
  };
  /** As the Cloud API takes them. */
  readonly contacts?: readonly Readonly<Record<string, unknown>>[];
  /** Any other message: `{ type, [type]: … }` as the Cloud API takes it. */
  readonly cloud?: Readonly<Record<string, unknown>>;
}

type Json = Readonly<Record<string, unknown>>;

const LONGEST_TEXT = 4096;
const LONGEST_CAPTION = 1024;
const LONGEST_KEY = 512;
const MEDIA = ['image', 'video', 'audio', 'document', 'sticker'] as const;
const CONTENTS = [...MEDIA, 'buttons', 'list', 'template', 'reaction', 'location', 'contacts', 'cloud'] as const;

/**
 * The body by which the Cloud API sends a reply. The key goes along as `biz_opaque_callback_data`, so that statuses tell it.
 *
 * @throws WhatsAppError with the reason `invalid`, naming the member and not what it holds
 */
export function bodyOf(to: ChatName, reply: WhatsAppReply, key: string): Json {
  const content = contentOf(reply);
  const recipient = isUserId(to.to) && !to.isGroup ? { recipient: to.to } : { to: to.to };
  return {
    messaging_product: 'whatsapp',
    recipient_type: to.isGroup ? 'group' : 'individual',
    ...recipient,
    ...(reply.replyTo === undefined ? {} : { context: { message_id: reply.replyTo } }),
    ...(key.length > LONGEST_KEY ? {} : { biz_opaque_callback_data: key }),
    ...content,
  };
}

function contentOf(reply: WhatsAppReply): Json {
  const { text } = reply;
  const given = CONTENTS.filter((name) => reply[name] !== undefined);
  if (given.length > 1) throw invalid(`${given.join(' and ')} are in one reply. Send one of them in each`);
  const [kind] = given;
  switch (kind) {
    case undefined:
      checkLength('text', text, 1, LONGEST_TEXT);
      return { type: 'text', text: { body: text, ...ifGiven('preview_url', reply.previewUrl) } };
    case 'image':
    case 'video':
    case 'document':
      checkLength('text', text, 0, LONGEST_CAPTION);
      return { type: kind, [kind]: { ...mediaOf(kind, reply[kind]), ...(text === '' ? {} : { caption: text }) } };
    case 'audio':
    case 'sticker':
      if (text !== '') throw invalid(`${kind} has no caption: leave the text empty, and send it as a reply of its own`);
      return { type: kind, [kind]: mediaOf(kind, reply[kind]) };
    case 'buttons':
      return interactive(reply, 'button', buttonsOf(reply.buttons));
    case 'list':
      return interactive(reply, 'list', listOf(reply.list));
    case 'template':
      return { type: 'template', template: templateOf(reply.template) };
    case 'reaction':
      return { type: 'reaction', reaction: { message_id: reply.reaction?.to, emoji: reply.reaction?.emoji } };
    case 'location':
      return { type: 'location', location: reply.location };
    case 'contacts':
      return { type: 'contacts', contacts: reply.contacts };
    default:
      if (typeof reply.cloud?.type !== 'string') throw invalid('cloud has no type. Give { type, [type]: … }');
      return reply.cloud;
  }
}

function mediaOf(name: string, media: unknown): Json {
  const { id, link, filename } = (media ?? {}) as { id?: unknown; link?: unknown; filename?: unknown };
  if ((typeof id === 'string') === (typeof link === 'string')) throw invalid(`${name} needs either an id or a link`);
  return { ...ifGiven('id', id), ...ifGiven('link', link), ...ifGiven('filename', filename) };
}

function interactive(reply: WhatsAppReply, type: 'button' | 'list', action: Json): Json {
  checkLength('text', reply.text, 1, type === 'list' ? LONGEST_TEXT : LONGEST_CAPTION);
  const { header, footer } = reply;
  if (header !== undefined) checkLength('header', header, 1, 60);
  if (footer !== undefined) checkLength('footer', footer, 1, 60);
  return {
    type: 'interactive',
    interactive: {
      type,
      ...(header === undefined ? {} : { header: { type: 'text', text: header } }),
      body: { text: reply.text },
      ...(footer === undefined ? {} : { footer: { text: footer } }),
      action,
    },
  };
}

function buttonsOf(buttons: unknown): Json {
  if (!Array.isArray(buttons) || buttons.length < 1 || buttons.length > 3) {
    throw invalid('buttons takes one to three. A list takes ten');
  }
  return {
    buttons: (buttons as ReplyButton[]).map(({ id, title }) => {
      checkLength('the id of a button', id, 1, 256);
      checkLength('the title of a button', title, 1, 20);
      return { type: 'reply', reply: { id, title } };
    }),
  };
}

function listOf(list: WhatsAppReply['list']): Json {
  checkLength('list.button', list?.button, 1, 20);
  const sections = list?.sections ?? [];
  if (!Array.isArray(sections)) throw invalid('list.sections is no array');
  const rows = (sections as ReplyList['sections']).flatMap((section) => section.rows ?? []);
  if (rows.length < 1 || rows.length > 10) throw invalid('a list takes one to ten rows in all');
  for (const { id, title, description } of rows) {
    checkLength('the id of a row', id, 1, 200);
    checkLength('the title of a row', title, 1, 24);
    if (description !== undefined) checkLength('the description of a row', description, 0, 72);
  }
  return { button: list?.button, sections };
}

function templateOf(template: WhatsAppReply['template']): Json {
  const { name, language, components } = template ?? {};
  if (typeof name !== 'string' || typeof language !== 'string') throw invalid('template needs a name and a language');
  return { name, language: { code: language }, ...ifGiven('components', components) };
}

function ifGiven(name: string, value: unknown): Json {
  return value === undefined ? {} : { [name]: value };
}

function checkLength(name: string, value: unknown, least: number, most: number): void {
  if (typeof value !== 'string') throw invalid(`${name} is no text`);
  // The platform counts characters, and an emoji as one.
  const length = value.length <= most ? value.length : Array.from(value).length;
  if (length < least) throw invalid(`${name} is empty`);
  if (length > most) throw invalid(`${name} has ${length} characters, and WhatsApp takes ${most}`);
}

function invalid(what: string): WhatsAppError {
  return new WhatsAppError('invalid', `nothing was sent: ${what}.`);
}
