// For whoever writes a bot.
export type { Answer } from './answer.js';
export { type ChatPlace, chatName } from './chat-name.js';
export { SlackError } from './errors.js';
export type { SlackKind } from './parse.js';
export type { SlackButton, SlackReply } from './send.js';
export { type Slack, type SlackOptions, slack } from './slack.js';
