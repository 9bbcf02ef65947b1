import { nowMs } from '../now.js';
import { SENTINEL_GROUP, SentinelSet } from '../redis/SentinelSet.js';
import { TestProxy } from '../TestProxy.js';
import { until } from '../until.js';
import type { Backend, Site, SiteFault } from './backend.js';
import { onOne, whyNoRedis } from './redis.js';

/** A replica's word is a second old at most, and so is what a new primary lacks. */
export const LAG_MS = 1000;
const SETTLES_MS = 30_000;

export const redisSentinel: Backend = {
  name: 'redis-sentinel',
  client: 'redis',
  whyNot: whyNoRedis,
  async open({ random }) {
    // A primary that is alone takes no writes: the old one has stopped before the new one begins.
    const config = ['min-replicas-to-write 1', 'min-replicas-max-lag 1', 'repl-ping-replica-period 1'];
    const set = await SentinelSet.start({ config, downAfterMs: 1500 });
    const anyServer = () => set.servers[Math.floor(random() * set.servers.length)]!;
    return {
      faults: [...onOne(anyServer), failover(set)],
      async way() {
        const proxies = await Promise.all(set.servers.map(({ port }) => TestProxy.start(port)));
        const natMap = natOf(set.servers, proxies);
        return { connect: { sentinels: set.sentinels, group: SENTINEL_GROUP, natMap }, proxies };
      },
      [Symbol.asyncDispose]: () => set[Symbol.asyncDispose](),
    } satisfies Site;
  },
};

/** By which address a replica reaches each server: that of its own proxy before it. */
export function natOf(
  servers: readonly { port: number }[],
  proxies: readonly TestProxy[],
): Record<string, { host: string; port: number }> {
  const ways = servers.map(({ port }, n) => [`127.0.0.1:${port}`, { host: '127.0.0.1', port: proxies[n]!.port }]);
  return Object.fromEntries(ways) as Record<string, { host: string; port: number }>;
}

/** Away from a frozen or killed primary, which then comes back as a replica. */
function failover(set: SentinelSet): SiteFault {
  return {
    kind: 'failover',
    async strike({ lostData, random }) {
      await until('the last failover is over', () => set.isWhole(), SETTLES_MS);
      const old = await set.primary();
      const keptUntil = nowMs() - LAG_MS;
      const isKilled = random() < 0.5;
      await (isKilled ? old.kill() : old.freeze());
      lostData(keptUntil);
      await set.failedOver(old);
      if (isKilled) await old.start();
      else old.thaw();
    },
  };
}
