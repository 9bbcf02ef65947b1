// For tests and benches: real servers, what connects them, what can happen to them, and replicas at work on them.

export { Child, giveAway, stateOf } from './child.js';
export type { NatsConnect } from './clients/nats.js';
export type { PostgresConnect } from './clients/postgres.js';
export type { RedisConnect } from './clients/redis.js';
export { Fleet, type FleetOptions, type Outcome, type Replica, type Wrap } from './fleet/Fleet.js';
export type { Connect } from './fleet/told.js';
export { Hosts, whyNoHosts } from './Hosts.js';
export { MovingClock, whyNoMovingClock } from './moving-clock.js';
export { bearLog } from './nats/bear.js';
export { NatsCluster } from './nats/NatsCluster.js';
export { NatsServer, type NatsServerOptions } from './nats/NatsServer.js';
export { anyNats, type NatsProgram, natsPrograms } from './nats/programs.js';
export { nowMs } from './now.js';
export { Places } from './places.js';
export { freePort } from './ports.js';
export { bornServer } from './postgres/born.js';
export { PostgresServer, type PostgresServerOptions } from './postgres/PostgresServer.js';
export { pgBouncer, postgresFolder, psql } from './postgres/programs.js';
export { TestPooler } from './postgres/TestPooler.js';
export { BIRTH, bear } from './redis/bear.js';
export { anyProgram, type Program, serverPrograms } from './redis/programs.js';
export { RedisServer, type RedisServerOptions } from './redis/RedisServer.js';
export { SENTINEL_GROUP, SentinelSet, type SentinelSetOptions } from './redis/SentinelSet.js';
export { ServerCluster, type ServerClusterOptions } from './redis/ServerCluster.js';
export { SplitSet, type SplitSetOptions } from './redis/SplitSet.js';
export { TestProxy, type Way } from './TestProxy.js';
export { pause, until } from './until.js';

/** Whether to run all that there is, and not only what every change pays for. */
export const isLong = process.env.BOTMESH_LONG !== undefined;
