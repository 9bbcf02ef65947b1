import type { CloudMessage } from './cloud.js';

/**
 * What a message is, as `ctx.message.kind`.
 *
 * - `message`: text, media, a location, contacts, an order
 * - `callback`: a button was pressed, a row of a list chosen, a form filled in
 * - `reaction`: put under a message, or taken away
 * - `edit`, `delete`: of a message sent before
 * - `system`: WhatsApp says that the number or the identity of the other end changed
 * - `unknown`: anything else; `raw` has it
 */
export type WhatsAppKind = 'message' | 'callback' | 'reaction' | 'edit' | 'delete' | 'system' | 'unknown';

type Json = Readonly<Record<string, unknown>>;
type Check = (content: unknown, message: Json) => boolean;

const hasText =
  (...names: readonly string[]): Check =>
  (content) =>
    isObject(content) && names.every((name) => typeof content[name] === 'string');

const isMedia = hasText('id');

/** What the member that is named as the type must be, so that the type can be relied upon. */
const CONTENT: Readonly<Record<string, Check>> = {
  text: hasText('body'),
  image: isMedia,
  video: isMedia,
  audio: isMedia,
  document: isMedia,
  sticker: isMedia,
  location: (content) =>
    isObject(content) && typeof content.latitude === 'number' && typeof content.longitude === 'number',
  contacts: (content) => Array.isArray(content) && content.every(isObject),
  order: isObject,
};

const KINDS: Readonly<Record<string, readonly [kind: WhatsAppKind, check: Check]>> = {
  interactive: ['callback', isInteractive],
  button: [
    'callback',
    (content) => isObject(content) && (hasText('payload')(content, {}) || hasText('text')(content, {})),
  ],
  reaction: ['reaction', hasText('message_id')],
  edit: ['edit', isEdit],
  revoke: ['delete', hasText('original_message_id')],
  system: ['system', isObject],
};

/** `unknown` for a type that is not listed, and for one whose content is not as it should be. */
export function kindOf(message: Json): WhatsAppKind {
  const type = String(message.type);
  if (Object.hasOwn(CONTENT, type)) return CONTENT[type]?.(message[type], message) ? 'message' : 'unknown';
  const known = Object.hasOwn(KINDS, type) ? KINDS[type] : undefined;
  return known?.[1](message[type], message) ? known[0] : 'unknown';
}

function isInteractive(content: unknown): boolean {
  if (!isObject(content)) return false;
  const reply = content[String(content.type)];
  if (content.type === 'button_reply' || content.type === 'list_reply') return hasText('id')(reply, {});
  return content.type === 'nfm_reply' && isObject(reply);
}

function isEdit(content: unknown): boolean {
  if (!isObject(content) || typeof content.original_message_id !== 'string') return false;
  return isObject(content.message) && kindOf(content.message) === 'message';
}

/**
 * What a bot matches: the text or caption; of a button or row, its id, as who pressed it means the same as who writes it; of a
 * reaction, its emoji. Empty where there is none.
 */
export function textOf(message: CloudMessage | Extract<CloudMessage, { type: 'edit' }>['edit']['message']): string {
  switch (message.type) {
    case 'text':
      return message.text.body;
    case 'image':
      return asText(message.image.caption);
    case 'video':
      return asText(message.video.caption);
    case 'document':
      return asText(message.document.caption);
    case 'order':
      return asText(message.order.text);
    case 'button':
      return asText(message.button.payload ?? message.button.text);
    case 'interactive':
      return chosen(message.interactive);
    case 'reaction':
      return asText(message.reaction.emoji);
    case 'edit':
      return textOf(message.edit.message);
    case 'system':
      return asText(message.system.body);
    default:
      return '';
  }
}

function chosen(interactive: Extract<CloudMessage, { type: 'interactive' }>['interactive']): string {
  if (interactive.type === 'button_reply') return interactive.button_reply.id;
  if (interactive.type === 'list_reply') return interactive.list_reply.id;
  return asText(interactive.nfm_reply.body);
}

/** Meta's documents say that it is a text. */
function asText(value: unknown): string {
  return typeof value === 'string' ? value : '';
}

function isObject(value: unknown): value is Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
