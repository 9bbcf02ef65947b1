import { describe } from 'vitest';
import { telegramPolling, telegramWebhook } from './platforms.js';
import { declareChannel } from './suite.js';

describe.concurrent('Telegram', () => {
  declareChannel(telegramWebhook);
  declareChannel(telegramPolling);
});
