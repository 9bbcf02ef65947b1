import { expectKept } from '../../testing/expect-kept.js';
import { isLong } from '../index.js';
import { natsR3 } from './nats-r3.js';

expectKept(natsR3, isLong ? 3 : 0);
