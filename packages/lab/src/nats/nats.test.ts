import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { until } from '../until.js';
import { NatsCluster } from './NatsCluster.js';
import { NatsServer } from './NatsServer.js';
import { natsPrograms } from './programs.js';

describe.concurrent.each(natsPrograms().slice(0, 1))('the lab on NATS $version', (program) => {
  test('a server keeps its store over a kill, loses it by a wipe, and gets an older one back', async () => {
    await using server = await NatsServer.start({ program });
    await server.isHealthy();
    const mark = join(server.folder, 'store', 'mark');
    writeFileSync(mark, '');

    await server.restart();
    expect(existsSync(mark)).toBe(true);
    const saved = await server.save();
    await server.restart({ wipe: true });
    expect(existsSync(mark)).toBe(false);
    await server.putBack(saved);
    expect(existsSync(mark)).toBe(true);
  });

  test('a frozen server answers nothing until it thaws', async () => {
    await using server = await NatsServer.start({ program });

    await server.freeze();
    await expect(server.monitor('/healthz')).rejects.toThrow();
    server.thaw();

    await until('it answers', async () => (await server.monitor('/healthz')).status === 'ok');
  });

  test('a cluster finds another leader for one that is killed', { timeout: 60_000 }, async () => {
    await using cluster = await NatsCluster.start({ program });
    await until('somebody leads', async () => (await cluster.leader()) !== undefined);
    const old = (await cluster.leader())!;

    await old.kill();

    expect(await cluster.failedOver(old)).not.toBe(old);
  });
});
