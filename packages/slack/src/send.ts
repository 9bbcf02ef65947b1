import type { Provider, Reply } from '@botmesh/core/spi';
import { SlackError } from './errors.js';
import type { Call } from './web-api.js';

/** A button under a text. */
export interface SlackButton {
  /** What comes back as the text of a `callback` when it is pressed. */
  readonly id: string;
  readonly title: string;
}

/** What `ctx.reply` takes besides `{ text }`. Members that are not listed are handed to Slack as they are. */
export interface SlackReply extends Reply {
  /** In one row under the text. Not together with `blocks`. */
  readonly buttons?: readonly SlackButton[];
  /** Slack's own. The text is what notifications show then. */
  readonly blocks?: readonly object[];
}

/** Posts replies into their chat, in its thread where it is one; to a person who has no channel here, in direct messages. */
export function sender(call: Call): Provider['send'] {
  return async (chat, reply, { signal }) => {
    if (chat.startsWith('team:')) {
      throw new SlackError('no channel', 'this chat has no channel to reply into. Post by call(), where you want it.');
    }
    const { buttons, ...rest } = reply as SlackReply;
    // Slack takes a person for a channel: it is the talk of the app with him.
    const [channel, thread] = chat.startsWith('user:') ? [chat.slice(5)] : chat.split(':', 2);
    const blocks = buttons === undefined ? {} : { blocks: blocksOf(rest.text, buttons) };
    const place = { channel, ...(thread === undefined ? {} : { thread_ts: thread }) };
    await call('chat.postMessage', { ...blocks, ...rest, ...place }, signal);
  };
}

function blocksOf(text: string, buttons: readonly SlackButton[]): object[] {
  const elements = buttons.map(({ id, title }) => ({
    type: 'button',
    action_id: id,
    value: id,
    text: { type: 'plain_text', text: title },
  }));
  const section = text === '' ? [] : [{ type: 'section', text: { type: 'mrkdwn', text } }];
  return [...section, { type: 'actions', elements }];
}
