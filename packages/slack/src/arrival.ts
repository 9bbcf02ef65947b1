// What Slack delivered: what it is, which chat it belongs to, and what it is known by. Pure, and the same for a provider and a
// binding.
import { createHash, randomUUID } from 'node:crypto';
import { chatName } from './chat-name.js';

/** What Slack delivered, as it stands in an envelope of Socket Mode or in the body of a call. */
export type Body = Readonly<Record<string, unknown>>;

export type ArrivalKind = 'event' | 'command' | 'options' | 'action' | 'shortcut' | 'view' | 'unknown';

/** What a body is, in the order in which Bolt asks. */
export function kindOf(body: Body): ArrivalKind {
  const { type } = body;
  if (body.event !== undefined) return 'event';
  if (body.command !== undefined) return 'command';
  if (body.name !== undefined || type === 'block_suggestion') return 'options';
  if (body.actions !== undefined || type === 'dialog_submission') return 'action';
  if (type === 'shortcut' || type === 'message_action') return 'shortcut';
  return type === 'view_submission' || type === 'view_closed' ? 'view' : 'unknown';
}

/** The name by which an app listens for it: an event's type, a command, the id of an action, a callback. */
export function nameOf(body: Body): string {
  const [action] = Array.isArray(body.actions) ? (body.actions as unknown[]) : [];
  const names = [
    of(body.event).type,
    body.command,
    of(action).action_id,
    body.action_id,
    of(body.view).callback_id,
    body.callback_id,
    body.type,
  ];
  return names.map(text).find((name) => name !== undefined) ?? 'unknown';
}

/** Subtypes of what somebody wrote, and not of what became of it: with a file, from a thread to its channel, by `/me`, by a bot. */
const WRITTEN = ['file_share', 'thread_broadcast', 'me_message', 'bot_message'];

/**
 * The same in every delivery: of a message its channel and time, as its wrapper may be another one; of other events
 * Slack's id, of what a user does his trigger. A message that mentions the bot comes as two events: `mentions` says whether
 * they are two, for a framework with a listener for each, or one.
 */
export function idOf(body: Body, mentions: 'two' | 'one'): string {
  const event = of(body.event);
  const { type, subtype, channel } = event;
  const ts = text(event.event_ts) ?? text(event.ts);
  if (isTalk(event) && text(channel) !== undefined && ts !== undefined) {
    const own = mentions === 'two' ? [type] : [];
    // A mention has none of these subtypes, though its message does: they are one.
    const what = WRITTEN.includes(text(subtype) ?? '') ? '' : text(subtype);
    return ['message', ...own, what ?? '', text(channel), ts].join(':');
  }
  if (body.event !== undefined) return text(body.event_id) ?? `event:${hash(body.event)}`;
  const trigger = text(body.trigger_id);
  // One press may bring several actions, each with the trigger of the press.
  if (trigger !== undefined) return `${kindOf(body)}:${trigger}`;
  return kindOf(body) === 'view' ? `view:${text(body.type)}:${text(of(body.view).id)}` : randomUUID();
}

/** Where it belongs; where it has no channel, to its user as `user:…`, else to its team as `team:…`. */
export function chatOf(body: Body, by: 'thread' | 'channel'): string {
  const { channel, ...place } = placeOf(body);
  if (channel === undefined) return besides(body);
  if (by === 'channel') return channel;
  const isLoose = place.isDirect || place.root === undefined;
  const thread = place.thread ?? (isLoose ? undefined : place.root);
  return chatName({ channel, thread });
}

/** Who did it. */
export function userOf(body: Body): string | undefined {
  const event = of(body.event);
  return (
    text(event.user) ?? text(of(event.user).id) ?? text(event.user_id) ?? text(of(body.user).id) ?? text(body.user_id)
  );
}

interface Place {
  readonly channel: string | undefined;
  /** The thread that it says it is in. */
  readonly thread: string | undefined;
  /** The message that would begin a thread. */
  readonly root: string | undefined;
  /** Whether the channel is a talk of few, where what stands outside of threads belongs together. */
  readonly isDirect: boolean;
}

function placeOf(body: Body): Place {
  const event = body.event === undefined ? of(body) : of(body.event);
  const [item, assistant, container] = [of(event.item), of(event.assistant_thread), of(event.container)];
  // An edited or deleted message stands inside of the event, a pressed button's beside it.
  const message = of(event.message ?? event.previous_message);
  const channel =
    text(event.channel) ??
    text(of(event.channel).id) ??
    text(event.channel_id) ??
    text(item.channel) ??
    text(assistant.channel_id) ??
    text(container.channel_id);
  const thread =
    text(event.thread_ts) ?? text(message.thread_ts) ?? text(assistant.thread_ts) ?? text(container.thread_ts);
  const own = isTalk(event) ? text(event.ts) : undefined;
  // What only one person sees begins no thread.
  const held = container.is_ephemeral === true ? undefined : text(container.message_ts);
  const root = text(message.ts) ?? text(item.ts) ?? held ?? own;
  const type = text(event.channel_type);
  const isDirect = type === 'im' || type === 'mpim' || channel?.startsWith('D') === true;
  return { channel, thread, root, isDirect };
}

function besides(body: Body): string {
  const user = userOf(body);
  if (user !== undefined) return chatName({ user });
  return `team:${text(body.team_id) ?? text(of(body.team).id) ?? 'unknown'}`;
}

/** Whether an event is something that was written. */
export function isTalk({ type }: Body): boolean {
  return type === 'message' || type === 'app_mention';
}

/** A field that is to be an object; an empty one where it is none. */
export function of(value: unknown): Record<string, unknown> {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {};
}

/** A field that is to be a text. Undefined where it is none, or empty. */
export function text(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined;
}

function hash(value: unknown): string {
  let whole: string;
  try {
    whole = JSON.stringify(value);
  } catch {
    // Nested so deep that nobody can take it in: it needs no name.
    return randomUUID();
  }
  return createHash('sha256').update(whole).digest('hex').slice(0, 32);
}
