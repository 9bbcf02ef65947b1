import { createHash, randomUUID } from 'node:crypto';
import type { Keys } from '@botmesh/core/spi';
import type { Body } from './bolt.js';

/** What must be serial: each thread, each channel, or what a function says of a body. See `MeshOptions.keys`. */
export type Keying = 'thread' | 'channel' | ((body: Body) => Keys);

export type Kind = 'event' | 'command' | 'options' | 'action' | 'shortcut' | 'view' | 'unknown';

/** What a body is, in the order in which Bolt asks. */
export function kindOf(body: Body): Kind {
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

/**
 * The same in every delivery: of a message its channel and time, as its wrapper may be another one; of other events
 * Slack's id, of what a user does his trigger.
 */
export function idOf(body: Body): string {
  const event = of(body.event);
  const { type, subtype, channel } = event;
  const ts = text(event.event_ts) ?? text(event.ts);
  const isMessage = (type === 'message' || type === 'app_mention') && text(channel) !== undefined && ts !== undefined;
  if (isMessage) return ['message', type, text(subtype) ?? '', text(channel), ts].join(':');
  if (body.event !== undefined) return text(body.event_id) ?? `event:${hash(body.event)}`;
  const trigger = text(body.trigger_id);
  // One press may bring several actions, each with the trigger of the press.
  if (trigger !== undefined) return `${kindOf(body)}:${trigger}`;
  return kindOf(body) === 'view' ? `view:${text(body.type)}:${text(of(body.view).id)}` : randomUUID();
}

export function keysOf(body: Body, keying: Keying): Keys {
  return typeof keying === 'function' ? keying(body) : chatOf(body, keying);
}

/** Where it belongs; where it has no channel, to its user, else to its team. */
function chatOf(body: Body, by: 'thread' | 'channel'): string {
  const place = placeOf(body);
  if (place.channel === undefined) return besides(body);
  if (by === 'channel') return place.channel;
  const isTalk = place.isDirect || place.root === undefined;
  const thread = place.thread ?? (isTalk ? undefined : place.root);
  return thread === undefined ? place.channel : `${place.channel}:${thread}`;
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
  const own = event.type === 'message' || event.type === 'app_mention' ? text(event.ts) : undefined;
  const root = text(message.ts) ?? text(item.ts) ?? text(container.message_ts) ?? own;
  const type = text(event.channel_type);
  const isDirect = type === 'im' || type === 'mpim' || channel?.startsWith('D') === true;
  return { channel, thread, root, isDirect };
}

function besides(body: Body): string {
  const event = of(body.event);
  const user =
    text(event.user) ?? text(of(event.user).id) ?? text(event.user_id) ?? text(of(body.user).id) ?? text(body.user_id);
  if (user !== undefined) return `user:${user}`;
  return `team:${text(body.team_id) ?? text(of(body.team).id) ?? 'unknown'}`;
}

function of(value: unknown): Record<string, unknown> {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {};
}

function text(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined;
}

function hash(value: unknown): string {
  return createHash('sha256').update(JSON.stringify(value)).digest('hex').slice(0, 32);
}
