import type { Backend } from './backend.js';
import { nats } from './nats.js';
import { natsR3 } from './nats-r3.js';
import { postgres } from './postgres.js';
import { postgresStandby } from './postgres-standby.js';
import { redis } from './redis.js';
import { redisCluster } from './redis-cluster.js';
import { redisSentinel } from './redis-sentinel.js';
import { sqlite } from './sqlite.js';

/** All that the lab can try. */
export const backends: readonly Backend[] = [
  redis,
  redisSentinel,
  redisCluster,
  postgres,
  postgresStandby,
  sqlite,
  nats,
  natsR3,
];
