// For whoever writes a bot.
export { type SlackOptions, slack } from './slack.js';
