export type { Button, PlainButton, TelegramReply } from './send.js';
export { type TelegramOptions, telegram } from './telegram.js';
