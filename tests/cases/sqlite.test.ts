import { sqlite } from '../cluster/backends.js';
import { declareCases } from './processes.js';

declareCases(sqlite);
