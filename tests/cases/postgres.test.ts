import { postgres } from '../cluster/backends.js';
import { declareCases } from './processes.js';

declareCases(postgres);
