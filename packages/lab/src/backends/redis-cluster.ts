import { nowMs } from '../now.js';
import { ServerCluster } from '../redis/ServerCluster.js';
import { TestProxy } from '../TestProxy.js';
import { until } from '../until.js';
import type { Backend, Site, SiteFault } from './backend.js';
import { onOne, whyNoRedis } from './redis.js';
import { LAG_MS, natOf } from './redis-sentinel.js';

const SETTLES_MS = 30_000;

export const redisCluster: Backend = {
  name: 'redis-cluster',
  client: 'redis',
  whyNot: whyNoRedis,
  async open({ random }) {
    const cluster = await ServerCluster.start();
    const anyNode = () => cluster.servers[Math.floor(random() * cluster.servers.length)]!;
    return {
      shards: 3,
      faults: [...onOne(anyNode), failover(cluster)],
      async way() {
        const proxies = await Promise.all(cluster.ports.map((port) => TestProxy.start(port)));
        const ports = proxies.map(({ port }) => port);
        return { connect: { ports, natMap: natOf(cluster.servers, proxies) }, proxies };
      },
      [Symbol.asyncDispose]: () => cluster[Symbol.asyncDispose](),
    } satisfies Site;
  },
};

/** Of one shard, away from a frozen primary, which then comes back as a replica. */
function failover(cluster: ServerCluster): SiteFault {
  return {
    kind: 'failover',
    async strike({ lostData, random }) {
      await until('the last failover is over', () => cluster.isWhole(), SETTLES_MS);
      const old = await cluster.ownerOf(Math.floor(random() * 16_384));
      const keptUntil = nowMs() - LAG_MS;
      await old.freeze();
      lostData(keptUntil);
      await cluster.failedOver(old);
      old.thaw();
    },
  };
}
