import type { IncomingMessage } from '@botmesh/core/spi';
import { type Body, chatOf, idOf, isTalk, of, text, userOf } from './arrival.js';

/**
 * What a message is, as `ctx.message.kind`. Beside these, a message of a subtype that is none of them has Slack's name for it.
 *
 * - `message`, `mention`: somebody wrote; to the bot by its name
 * - `edit`, `delete`: of a message that was there before
 * - `reaction`: put under a message, or taken away; `join`: somebody came into a channel
 * - `command`: a slash command; `callback`: a button or menu; `view`: a modal; `shortcut`
 * - `unknown`: anything else; `raw` has it
 */
export type SlackKind =
  | 'message'
  | 'mention'
  | 'edit'
  | 'delete'
  | 'reaction'
  | 'join'
  | 'command'
  | 'callback'
  | 'view'
  | 'shortcut'
  | 'unknown';

const KINDS: Readonly<Record<string, SlackKind>> = {
  message: 'message',
  app_mention: 'mention',
  message_changed: 'edit',
  message_deleted: 'delete',
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

/**
 * The message that a body is, with the whole body as `raw`. Undefined for what the bot itself wrote, which Slack tells it,
 * too.
 */
export function messageOf(body: Body): IncomingMessage | undefined {
  if (body.event !== undefined && isOwn(body)) return undefined;
  const kind = kindName(body);
  const id = idOf(body, 'one');
  return { chat: chatOf(body, 'thread'), id, text: textOf(body), from: userOf(body), kind, raw: body };
}

function kindName(body: Body): string {
  if (body.command !== undefined) return 'command';
  const event = of(body.event);
  const subtype = isTalk(event) ? text(event.subtype) : undefined;
  if (subtype !== undefined) return known(subtype) ?? subtype;
  return known(text(body.event === undefined ? body.type : event.type) ?? '') ?? 'unknown';
}

function known(name: string): SlackKind | undefined {
  return Object.hasOwn(KINDS, name) ? KINDS[name] : undefined;
}

/** What a bot matches: what was written, the value of a button, what was chosen, the callback of a modal. */
function textOf(body: Body): string {
  if (body.event !== undefined) {
    const event = of(body.event);
    return text(event.text) ?? text(of(event.message).text) ?? text(event.reaction) ?? '';
  }
  if (body.command !== undefined) return `${text(body.command) ?? ''} ${text(body.text) ?? ''}`.trim();
  const [first] = Array.isArray(body.actions) ? (body.actions as unknown[]) : [];
  const action = of(first);
  const chosen = text(action.value) ?? text(of(action.selected_option).value);
  return chosen ?? text(action.action_id) ?? text(of(body.view).callback_id) ?? text(body.callback_id) ?? '';
}

function isOwn(body: Body): boolean {
  const event = of(body.event);
  const [own] = Array.isArray(body.authorizations) ? (body.authorizations as unknown[]) : [];
  const inner = of(event.message);
  const writers = [text(event.user), text(inner.user)];
  const isByBot = event.bot_id !== undefined || inner.bot_id !== undefined || event.type === 'message';
  return isByBot && text(of(own).user_id) !== undefined && writers.includes(text(of(own).user_id));
}
