import type { IncomingMessage } from '@botmesh/core/spi';
import { chatName } from './chat-name.js';
import { kindOf } from './kinds.js';

/** An update as the Bot API sends it: a number, and one more member, which names its kind. */
export interface Update {
  readonly update_id: number;
  readonly [kind: string]: unknown;
}

type Fields = Readonly<Record<string, unknown>>;

/**
 * An update as a message of its chat; a topic of a forum is a chat of its own, and so is what comes through a business account.
 * What has no chat belongs to the person, what has neither stands alone. Or what is wrong with it.
 */
export function messageOf(update: Fields, account: string): IncomingMessage | string {
  const number = update.update_id;
  if (!Number.isSafeInteger(number)) return 'update_id: expected a whole number';
  const [name = 'none', value] = Object.entries(update).find(([key]) => key !== 'update_id') ?? [];
  const content = fieldsOf(value);
  const from = fieldsOf(content.from ?? content.user).id;
  return {
    chat: chatOf(content) ?? `alone:${account}:${String(number)}`,
    id: `${account}:${String(number)}`,
    text: textOf(content),
    from: isId(from) ? String(from) : undefined,
    kind: kindOf(name, content),
    raw: update,
  };
}

/** A group that became a supergroup, and what it is called now. Telegram says so in both of them. */
export interface Migration {
  readonly from: string;
  readonly to: string;
}

/** What a message of the kind `migrated` tells. Undefined for others. */
export function migrationOf({ kind, chat, raw }: IncomingMessage): Migration | undefined {
  if (kind !== 'migrated') return undefined;
  const { message, channel_post: post } = fieldsOf(raw);
  const { migrate_to_chat_id: to, migrate_from_chat_id: from } = fieldsOf(message ?? post);
  if (isId(to)) return { from: chat, to: String(to) };
  return isId(from) ? { from: String(from), to: chat } : undefined;
}

function chatOf(content: Fields): string | undefined {
  const message = content.message === undefined ? content : fieldsOf(content.message);
  const id = fieldsOf(message.chat).id ?? fieldsOf(content.from ?? content.user).id ?? content.user_chat_id;
  if (!isId(id)) return undefined;
  const { message_thread_id: topic, business_connection_id: business } = message;
  return chatName({
    id,
    topic: message.is_topic_message === true && typeof topic === 'number' ? topic : undefined,
    business: typeof business === 'string' && business !== '' ? business : undefined,
  });
}

/** What somebody wrote, chose or asked for; empty where there are no words. */
function textOf(content: Fields): string {
  const found = [content.text, content.caption, content.data, content.query].find((text) => typeof text === 'string');
  if (typeof found === 'string') return found;
  const reactions: unknown = content.new_reaction;
  if (!Array.isArray(reactions)) return '';
  return reactions
    .map((each) => fieldsOf(each).emoji)
    .filter((emoji) => typeof emoji === 'string')
    .join('');
}

function isId(value: unknown): value is number | string {
  return typeof value === 'number' || (typeof value === 'string' && value !== '');
}

function fieldsOf(value: unknown): Fields {
  return typeof value === 'object' && value !== null ? (value as Fields) : {};
}
