/**
 * What an update is, as `ctx.message.kind`.
 *
 * - `message`: somebody wrote, in a chat, a channel or, through a business account, to its owner; `guest`: in a chat where the bot is
 *   no member
 * - `edit`, `delete`: of a message that was there before; `reaction`: put under one, or taken away; `reaction-count`: of many
 * - `callback`: a button was pressed; `inline`, `inline-result`: somebody types the bot's name, and has chosen
 * - `join`, `leave`: of somebody in a group; `membership`, `member`: the rights of the bot and of others; `join-request`
 * - `migrated`: a group became a supergroup; `service`: anything else in a chat that nobody wrote, such as a new title
 * - `payment`, `checkout`, `shipping`, `purchase`, `subscription`: of money
 * - `unknown`: what this version does not know. `raw` has it
 */
export type TelegramKind =
  | 'message'
  | 'guest'
  | 'edit'
  | 'delete'
  | 'connection'
  | 'callback'
  | 'reaction'
  | 'reaction-count'
  | 'inline'
  | 'inline-result'
  | 'shipping'
  | 'checkout'
  | 'payment'
  | 'purchase'
  | 'subscription'
  | 'poll'
  | 'poll-answer'
  | 'membership'
  | 'member'
  | 'join'
  | 'leave'
  | 'join-request'
  | 'migrated'
  | 'service'
  | 'boost'
  | 'boost-removed'
  | 'managed-bot'
  | 'stop'
  | 'unknown';

/** By the member of the update. A test holds it against all that the Bot API has. */
export const KINDS = {
  message: 'message',
  channel_post: 'message',
  business_message: 'message',
  guest_message: 'guest',
  edited_message: 'edit',
  edited_channel_post: 'edit',
  edited_business_message: 'edit',
  deleted_business_messages: 'delete',
  business_connection: 'connection',
  stopped_message_generation: 'stop',
  callback_query: 'callback',
  message_reaction: 'reaction',
  message_reaction_count: 'reaction-count',
  inline_query: 'inline',
  chosen_inline_result: 'inline-result',
  shipping_query: 'shipping',
  pre_checkout_query: 'checkout',
  purchased_paid_media: 'purchase',
  subscription: 'subscription',
  poll: 'poll',
  poll_answer: 'poll-answer',
  my_chat_member: 'membership',
  chat_member: 'member',
  chat_join_request: 'join-request',
  chat_boost: 'boost',
  removed_chat_boost: 'boost-removed',
  managed_bot: 'managed-bot',
} as const satisfies Readonly<Record<string, TelegramKind>>;

/** What a message is that nobody wrote, by the member that it has. */
const SERVICE: readonly (readonly [member: RegExp, kind: TelegramKind])[] = [
  [/^new_chat_members$/, 'join'],
  [/^left_chat_member$/, 'leave'],
  [/^migrate_(to|from)_chat_id$/, 'migrated'],
  [/^(successful|refunded)_payment$/, 'payment'],
  [/^(new_chat_(title|photo)|delete_chat_photo|(group|supergroup|channel)_chat_created|pinned_message)$/, 'service'],
  [/^(message_auto_delete_timer_changed|(general_)?forum_topic_\w+|video_chat_\w+|boost_added)$/, 'service'],
  [/^(chat_background_set|proximity_alert_triggered|write_access_allowed|connected_website)$/, 'service'],
  [/^(giveaway_(created|completed)|chat_owner_(left|changed)|(direct|paid)_message_price_changed)$/, 'service'],
];

export function kindOf(name: string, content: Readonly<Record<string, unknown>>): TelegramKind {
  const kind = Object.hasOwn(KINDS, name) ? KINDS[name as keyof typeof KINDS] : 'unknown';
  return kind === 'message' ? (serviceIn(content) ?? kind) : kind;
}

function serviceIn(content: Readonly<Record<string, unknown>>): TelegramKind | undefined {
  const members = Object.keys(content);
  return SERVICE.find(([member]) => members.some((name) => member.test(name)))?.[1];
}
