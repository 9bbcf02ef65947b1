import { expectKept } from '../../testing/expect-kept.js';
import { redisCluster } from './redis-cluster.js';

expectKept(redisCluster);
