import { sqlite } from '../cluster/backends.js';
import { declareCases } from './processes.js';
import { declareRolling } from './rolling.js';

declareCases(sqlite);
declareRolling(sqlite);
