/** Where a chat is at Slack: in a channel, in one of its threads, or with a person, in direct messages. */
export type ChatPlace = { readonly channel: string; readonly thread?: string | undefined } | { readonly user: string };

/**
 * The name of a chat, as `ctx.message.chat` has it, by Slack's ids: `C123` for a channel, `C123:1700000000.000100` for the
 * thread under the message of that `ts`, `user:U123` for a person. Not promised: that a person's name and the channel of
 * his direct messages, `D123`, are one chat. They are two.
 */
export function chatName(place: ChatPlace): string {
  if ('user' in place) return `user:${place.user}`;
  return place.thread === undefined ? place.channel : `${place.channel}:${place.thread}`;
}
