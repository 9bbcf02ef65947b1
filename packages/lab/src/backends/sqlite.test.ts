import { expectKept } from '../../testing/expect-kept.js';
import { sqlite } from './sqlite.js';

expectKept(sqlite);
