import { postgres } from '../cluster/backends.js';
import { declareCases } from './processes.js';
import { declareRolling } from './rolling.js';

declareCases(postgres);
declareRolling(postgres);
