export type { Button, TelegramReply } from './send.js';
export { type TelegramOptions, telegram } from './telegram.js';
