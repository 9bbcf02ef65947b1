// What the tests of this package need of the lab. Its servers are those of PostgreSQL here.
import type { TestProxy } from '@botmesh/lab';

export {
  Fleet,
  type FleetOptions,
  isLong,
  MovingClock,
  nowMs,
  type Outcome,
  Places,
  type PostgresConnect as Connect,
  PostgresServer as TestServer,
  type PostgresServerOptions as TestServerOptions,
  pause,
  pgBouncer,
  postgresFolder,
  TestPooler,
  TestProxy,
  until,
  whyNoMovingClock,
} from '@botmesh/lab';

export function urlBy(proxy: TestProxy): string {
  return `postgres://postgres@127.0.0.1:${proxy.port}/postgres`;
}
