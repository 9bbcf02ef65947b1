import { Cluster, Redis } from 'ioredis';
import { describe, expect, test } from 'vitest';
import { serverPrograms } from './programs.js';
import { SENTINEL_GROUP, SentinelSet } from './SentinelSet.js';
import { ServerCluster } from './ServerCluster.js';

describe.concurrent.each(serverPrograms())('sets of $name', (program) => {
  test('Sentinels put a replica in the place of a frozen primary', { timeout: 60_000 }, async () => {
    await using set = await SentinelSet.start({ program });
    const old = await set.primary();
    const redis = new Redis({ sentinels: set.sentinels, name: SENTINEL_GROUP });
    redis.on('error', () => {});
    await redis.set('a', '1');
    redis.disconnect();

    await old.freeze();
    const heir = await set.failedOver(old);

    expect(await heir.ask('SET', 'a', '2')).toBe('OK');
  });

  test('a cluster puts a replica in the place of a frozen primary', { timeout: 60_000 }, async () => {
    await using cluster = await ServerCluster.start({ program });
    const redis = new Cluster([{ host: '127.0.0.1', port: cluster.ports[0]! }]);
    redis.on('error', () => {});
    await redis.set('a', '1');
    const slot = Number(await cluster.servers[0]!.ask('CLUSTER', 'KEYSLOT', 'a'));
    const old = await cluster.ownerOf(slot);

    await old.freeze();
    const heir = await cluster.failedOver(old);

    expect(await cluster.ownerOf(slot)).toBe(heir);
    expect(await heir.ask('GET', 'a')).toBe('1');
    redis.disconnect();
  });
});
