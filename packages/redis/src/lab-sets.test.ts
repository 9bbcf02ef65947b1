import { Cluster, Redis } from 'ioredis';
import { describe, expect, test } from 'vitest';
import { SENTINEL_GROUP, SentinelSet, ServerCluster, serverPrograms } from '../testing/lab.js';
import { slotOf } from './clients/cluster-slot.js';

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
    const old = await cluster.ownerOf(slotOf('a'));

    await old.freeze();
    const heir = await cluster.failedOver(old);

    expect(await cluster.ownerOf(slotOf('a'))).toBe(heir);
    expect(await heir.ask('GET', 'a')).toBe('1');
    redis.disconnect();
  });
});
