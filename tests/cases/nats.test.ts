import { nats } from '../cluster/backends.js';
import { declareCases } from './processes.js';
import { declareRolling } from './rolling.js';

declareCases(nats);
declareRolling(nats);
