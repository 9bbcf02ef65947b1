export { type ChatPlace, chatName } from './chat-name.js';
export type { Downloaded, DownloadOptions } from './download.js';
export { type Reason, TelegramError } from './errors.js';
export type { TelegramKind } from './kinds.js';
export type { TelegramOptions } from './options.js';
export type { OutgoingMedia, TelegramButton, TelegramReply } from './outgoing.js';
export { type Migration, migrationOf } from './receive.js';
export type { Sent } from './send.js';
export { type Telegram, telegram } from './telegram.js';
