import { redis } from '../cluster/backends.js';
import { declareAccounts } from './accounts.js';
import { declareCases } from './processes.js';
import { declareRolling } from './rolling.js';

declareCases(redis);
declareRolling(redis);
declareAccounts(redis);
