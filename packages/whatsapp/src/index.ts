export { chatName } from './chat-name.js';
export type {
  CloudContact,
  CloudError,
  CloudInteractive,
  CloudLocation,
  CloudMedia,
  CloudMessage,
  CloudOrder,
  CloudSystem,
} from './cloud.js';
export { type Explained, explain, type Reason, WhatsAppError } from './error-codes.js';
export type { WhatsAppKind } from './kinds.js';
export type { Downloaded, DownloadOptions } from './media.js';
export type { Sent, WhatsAppOptions } from './options.js';
export type { OutgoingMedia, ReplyButton, ReplyList, WhatsAppReply } from './outgoing.js';
export { type Received, received, type Status, type Update } from './updates.js';
export { type WhatsApp, whatsapp } from './whatsapp.js';
