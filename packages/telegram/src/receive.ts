import type { IncomingMessage } from '@botmesh/core/spi';

/** An update as the Bot API sends it: a number, and one more member, which names its kind. */
export interface Update {
  readonly update_id: number;
  readonly [kind: string]: unknown;
}

type Fields = Readonly<Record<string, unknown>>;

/**
 * What each kind of update is called in `ctx.message.kind`. Those that are not here come as `unknown`, with the whole update
 * in `raw`.
 */
const KINDS: Readonly<Record<string, string>> = {
  message: 'message',
  channel_post: 'message',
  business_message: 'message',
  guest_message: 'message',
  edited_message: 'edit',
  edited_channel_post: 'edit',
  edited_business_message: 'edit',
  deleted_business_messages: 'delete',
  business_connection: 'connection',
  callback_query: 'callback',
  message_reaction: 'reaction',
  message_reaction_count: 'reaction-count',
  inline_query: 'inline',
  chosen_inline_result: 'inline-result',
  shipping_query: 'shipping',
  pre_checkout_query: 'checkout',
  purchased_paid_media: 'purchase',
  poll: 'poll',
  poll_answer: 'poll-answer',
  my_chat_member: 'membership',
  chat_member: 'member',
  chat_join_request: 'join-request',
  chat_boost: 'boost',
  removed_chat_boost: 'boost-removed',
};

/** What a message is that nobody wrote. */
const SERVICE: Readonly<Record<string, string>> = {
  new_chat_members: 'join',
  left_chat_member: 'leave',
  migrate_to_chat_id: 'migrated',
  migrate_from_chat_id: 'migrated',
};

/**
 * An update as a message of its chat; a topic of a forum is a chat of its own, `<chat>/<topic>`. What has no chat belongs to
 * the person, what has neither stands alone. Or what is wrong with it.
 */
export function messageOf(update: Fields, account: string): IncomingMessage | string {
  const number = update.update_id;
  if (!Number.isSafeInteger(number)) return 'update_id: expected a whole number';
  const [name = 'none', value] = Object.entries(update).find(([key]) => key !== 'update_id') ?? [];
  const content = fieldsOf(value);
  const from = idOf(fieldsOf(content.from ?? content.user).id);
  return {
    chat: chatOf(content) ?? `alone:${account}:${String(number)}`,
    id: `${account}:${String(number)}`,
    text: textOf(content),
    from,
    kind: kindOf(name, content),
    raw: update,
  };
}

function kindOf(name: string, content: Fields): string {
  const kind = Object.hasOwn(KINDS, name) ? KINDS[name]! : 'unknown';
  if (kind !== 'message') return kind;
  const service = Object.keys(SERVICE).find((field) => content[field] !== undefined);
  return service === undefined ? kind : SERVICE[service]!;
}

function chatOf(content: Fields): string | undefined {
  const message = content.message === undefined ? content : fieldsOf(content.message);
  const id = idOf(fieldsOf(message.chat).id ?? fieldsOf(content.from ?? content.user).id ?? content.user_chat_id);
  if (id === undefined) return undefined;
  const topic = message.is_topic_message === true ? message.message_thread_id : undefined;
  return typeof topic === 'number' ? `${id}/${topic}` : id;
}

/** A number, as Telegram gives it, as a text. Undefined for what is none. */
function idOf(id: unknown): string | undefined {
  return Number.isSafeInteger(id) ? String(id) : undefined;
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

function fieldsOf(value: unknown): Fields {
  return typeof value === 'object' && value !== null ? (value as Fields) : {};
}
