import { expectKept } from '../../testing/expect-kept.js';
import { redisSentinel } from './redis-sentinel.js';

expectKept(redisSentinel);
