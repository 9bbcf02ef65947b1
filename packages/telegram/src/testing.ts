export {
  type Call,
  FakeTelegram,
  type FakeTelegramOptions,
  type Refusal,
} from './fake/FakeTelegram.js';
export type { Update } from './fake/UpdateQueue.js';
export type { Delivery } from './fake/WebhookDelivery.js';
