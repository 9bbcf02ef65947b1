// Accounts of a fake WhatsApp, in processes that are killed, frozen and replaced.
import { redis } from '../cluster/backends.js';
import { declareBaileysFacts } from './baileys-facts.js';

declareBaileysFacts(redis);
