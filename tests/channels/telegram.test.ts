import { telegramPolling, telegramWebhook } from './platforms.js';
import { declareChannel } from './suite.js';

declareChannel(telegramWebhook);
declareChannel(telegramPolling);
