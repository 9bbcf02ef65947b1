import { expectKept } from '../../testing/expect-kept.js';
import { redis } from './redis.js';

expectKept(redis);
