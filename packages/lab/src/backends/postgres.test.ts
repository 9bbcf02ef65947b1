import { expectKept } from '../../testing/expect-kept.js';
import { postgres } from './postgres.js';

expectKept(postgres);
