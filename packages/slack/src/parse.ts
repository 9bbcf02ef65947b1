import { createHash } from 'node:crypto';
import type { IncomingMessage } from '@botmesh/core/spi';

/** What Slack posted. */
export type Body = Readonly<Record<string, unknown>>;

type Fields = Record<string, unknown>;

/**
 * The message that a body is. Its `kind` is undefined for what somebody wrote, else `mention`, `edit`, `delete`, `reaction`,
 * `join`, `command`, `callback`, `view`, `shortcut`, or `unknown`; `raw` is the whole body. Undefined for what the bot itself
 * wrote, which Slack tells it, too.
 */
export function messageOf(body: Body): IncomingMessage | undefined {
  if (body.event !== undefined) return eventOf(body, of(body.event));
  const from = text(of(body.user).id) ?? text(body.user_id);
  const base = { chat: placeOf(of(body)) ?? `user:${from ?? 'unknown'}`, from, raw: body };
  const trigger = text(body.trigger_id);
  const id = trigger ?? `body:${hash(body)}`;
  if (body.command !== undefined) {
    return {
      ...base,
      id: `command:${id}`,
      kind: 'command',
      text: `${text(body.command)} ${text(body.text) ?? ''}`.trim(),
    };
  }
  const [action] = Array.isArray(body.actions) ? (body.actions as unknown[]) : [];
  const name = text(of(action).action_id) ?? text(of(body.view).callback_id) ?? text(body.callback_id) ?? '';
  const said = text(of(action).value) ?? text(of(of(action).selected_option).value) ?? name;
  return {
    ...base,
    id: `${text(body.type) ?? 'unknown'}:${id}`,
    kind: KINDS[text(body.type) ?? ''] ?? 'unknown',
    text: said,
  };
}

const KINDS: Readonly<Record<string, string>> = {
  app_mention: 'mention',
  reaction_added: 'reaction',
  reaction_removed: 'reaction',
  member_joined_channel: 'join',
  block_actions: 'callback',
  interactive_message: 'callback',
  view_submission: 'view',
  view_closed: 'view',
  shortcut: 'shortcut',
  message_action: 'shortcut',
};

const SUBTYPES: Readonly<Record<string, string>> = { message_changed: 'edit', message_deleted: 'delete' };

function eventOf(body: Body, event: Fields): IncomingMessage | undefined {
  const type = text(event.type) ?? 'unknown';
  const from = text(event.user) ?? text(of(event.user).id);
  if (isOwn(body, event)) return undefined;
  const chat = placeOf(event) ?? (from === undefined ? `team:${text(body.team_id) ?? 'unknown'}` : `user:${from}`);
  const isTalk = type === 'message' || type === 'app_mention';
  const subtype = text(event.subtype);
  const ts = text(event.event_ts) ?? text(event.ts);
  // One message that speaks to the bot comes as two events, which are one.
  const id = isTalk && ts !== undefined ? `message:${subtype ?? ''}:${channelOf(event)}:${ts}` : text(body.event_id);
  const written = text(event.text) ?? text(of(event.message).text) ?? text(event.reaction) ?? '';
  const kind =
    isTalk && subtype !== undefined ? (SUBTYPES[subtype] ?? subtype) : type === 'message' ? undefined : KINDS[type];
  return {
    chat,
    id: id ?? `event:${hash(event)}`,
    text: written,
    from,
    kind: type === 'message' ? kind : (kind ?? 'unknown'),
    raw: body,
  };
}

function isOwn(body: Body, event: Fields): boolean {
  const [own] = Array.isArray(body.authorizations) ? (body.authorizations as unknown[]) : [];
  const inner = of(event.message);
  const writers = [text(event.user), text(inner.user)];
  const isByBot = event.bot_id !== undefined || inner.bot_id !== undefined || event.type === 'message';
  return isByBot && text(of(own).user_id) !== undefined && writers.includes(text(of(own).user_id));
}

/** The chat: a channel, with its thread where it has one. */
function placeOf(event: Fields): string | undefined {
  const channel = channelOf(event);
  if (channel === undefined) return undefined;
  const [item, assistant, container] = [of(event.item), of(event.assistant_thread), of(event.container)];
  const message = of(event.message ?? event.previous_message);
  const thread =
    text(event.thread_ts) ?? text(message.thread_ts) ?? text(assistant.thread_ts) ?? text(container.thread_ts);
  const isTalk = event.type === 'message' || event.type === 'app_mention';
  const root = text(message.ts) ?? text(item.ts) ?? text(container.message_ts) ?? (isTalk ? text(event.ts) : undefined);
  const type = text(event.channel_type);
  const isDirect = type === 'im' || type === 'mpim' || channel.startsWith('D');
  const found = thread ?? (isDirect ? undefined : root);
  return found === undefined ? channel : `${channel}:${found}`;
}

function channelOf(event: Fields): string | undefined {
  return (
    text(event.channel) ??
    text(of(event.channel).id) ??
    text(event.channel_id) ??
    text(of(event.item).channel) ??
    text(of(event.assistant_thread).channel_id) ??
    text(of(event.container).channel_id)
  );
}

function of(value: unknown): Fields {
  return typeof value === 'object' && value !== null ? (value as Fields) : {};
}

function text(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined;
}

function hash(value: unknown): string {
  return createHash('sha256').update(JSON.stringify(value)).digest('hex').slice(0, 32);
}
