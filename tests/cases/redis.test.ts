import { redis } from '../cluster/backends.js';
import { declareCases } from './processes.js';

declareCases(redis);
