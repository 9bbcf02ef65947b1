// Bots of the real Chat SDK with its real adapter of Telegram, in processes that are killed, frozen and replaced.
import { redis } from '../cluster/backends.js';
import { declareChatSdkFacts } from './chat-sdk-facts.js';

declareChatSdkFacts(redis);
