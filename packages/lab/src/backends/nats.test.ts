import { expectKept } from '../../testing/expect-kept.js';
import { isLong } from '../index.js';
import { nats } from './nats.js';

expectKept(nats, isLong ? 3 : 0);
