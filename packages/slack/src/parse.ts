import type { IncomingMessage } from '@botmesh/core/spi';
import { type Body, chatOf, idOf, isTalk, of, text, userOf } from './arrival.js';

/**
 * What a message is, as `ctx.message.kind`. Beside these, a message of a subtype that is none of them has Slack's name for it.
 *
 * - `message`, `mention`: somebody wrote, also with a file or from a thread to its channel; to the bot by its name
 * - `bot_message`: another bot wrote
 * - `edit`, `delete`: of a message that was there before
 * - `reaction`: put under a message, or taken away; `join`: somebody came into a channel
 * - `command`: a slash command; `callback`: a button or menu; `view`: a modal; `shortcut`
 * - `unknown`: anything else; `raw` has it
 */
export type SlackKind =
  | 'message'
  | 'mention'
  | 'bot_message'
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
  file_share: 'message',
  thread_broadcast: 'message',
  me_message: 'message',
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

/** What the bot does itself and yet hears of: that it has come somewhere. */
const HEARD = ['member_joined_channel', 'member_left_channel'];

/**
 * The message that a body is, with the whole body as `raw`. Undefined for what the bot itself wrote or did, which Slack tells
 * it, too.
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
  const kind = known(subtype ?? text(body.event === undefined ? body.type : event.type) ?? '') ?? subtype ?? 'unknown';
  if (kind !== 'message') return kind;
  // Both events of a mention say so, whichever comes first.
  if (mentionIn(body) !== undefined) return 'mention';
  return event.bot_id === undefined ? kind : 'bot_message';
}

/** Where the bot is spoken to by its name: what was written besides, without the name at its beginning. */
function mentionIn(body: Body): string | undefined {
  const written = text(of(body.event).text);
  const user = ownUser(body);
  if (written === undefined || user === undefined) return undefined;
  const [before = '', ...after] = written.split(`<@${user}>`);
  if (after.length === 0) return undefined;
  return before.trim() === '' ? after.join(`<@${user}>`).replace(/^[\s,:]+/, '') : written;
}

function known(name: string): SlackKind | undefined {
  return Object.hasOwn(KINDS, name) ? KINDS[name] : undefined;
}

/** What a bot matches: what was written, the value of a button, what was chosen, the callback of a modal. */
function textOf(body: Body): string {
  if (body.event !== undefined) {
    const event = of(body.event);
    const mention = isTalk(event) ? mentionIn(body) : undefined;
    return mention ?? text(event.text) ?? text(of(event.message).text) ?? text(event.reaction) ?? '';
  }
  if (body.command !== undefined) return `${text(body.command) ?? ''} ${text(body.text) ?? ''}`.trim();
  const [first] = Array.isArray(body.actions) ? (body.actions as unknown[]) : [];
  const action = of(first);
  const chosen = text(action.value) ?? text(of(action.selected_option).value);
  return chosen ?? text(action.action_id) ?? text(of(body.view).callback_id) ?? text(body.callback_id) ?? '';
}

/** A message of the bot under a name that it chose has no user, but its app. */
function isOwn(body: Body): boolean {
  const event = of(body.event);
  if (HEARD.includes(text(event.type) ?? '')) return false;
  const [user, app] = [ownUser(body), text(body.api_app_id)];
  return [event, of(event.message), of(event.previous_message)].some((part) => {
    if (user !== undefined && part.user === user) return true;
    const by = text(part.app_id) ?? text(of(part.bot_profile).app_id);
    return part.bot_id !== undefined && app !== undefined && by === app;
  });
}

/** Whom the app is installed for may be a person, too: what he writes is not the bot's. */
function ownUser(body: Body): string | undefined {
  const [first] = Array.isArray(body.authorizations) ? (body.authorizations as unknown[]) : [];
  const own = of(first);
  return own.is_bot === false ? undefined : text(own.user_id);
}
