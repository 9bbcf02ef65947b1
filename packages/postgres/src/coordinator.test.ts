import { randomUUID } from 'node:crypto';
import { type ConformanceSubject, coordinatorConformance, inboxConformance, storeMesh } from '@botmesh/core/testing';
import { afterAll, describe, test } from 'vitest';
import { isLong } from '../testing/lab.js';
import { type Opened, openWay, waysToRun } from '../testing/ways.js';
import type { PostgresClient } from './clients/client.js';
import { makeClient } from './clients/make-client.js';
import { PostgresStore } from './PostgresStore.js';
import { quoted } from './quoting.js';
import { SharedClient } from './SharedClient.js';

const LEASE_MS = 3_000;

/** What the virtual suites cannot show: that the server's own clock, locks and notifications do, and calls made again. */
const PROMISES = new Set([1, 4, 9, 12, 13]);

function subject({ client, options, url }: Opened, schema: string, admin: PostgresClient): ConformanceSubject {
  const isPolling = options.wakeUp === 'poll';
  return {
    name: 'postgres in real time',
    ...(isPolling && { lacks: { 26: 'who polls is sent no pushes' } }),
    async open({ shards = 1, leaseMs = LEASE_MS } = {}) {
      const namespace = randomUUID();
      const name = quoted(schema);
      for (let shard = 0; shard < shards; shard++) {
        await admin.call(`insert into ${name}.mesh (namespace, shard, run) values ($1, $2, ${name}.run())`, [
          namespace,
          String(shard),
        ]);
      }
      return storeMesh({
        leaseMs,
        shards,
        // Who waits for nothing hears of the rest with its next heartbeat.
        ...(isPolling && { slackMs: leaseMs / 4 + leaseMs / 6 }),
        createStore: (shard) => {
          const times = { timeoutMs: leaseMs / 6, connectTimeoutMs: leaseMs / 3 };
          return new PostgresStore({
            client: new SharedClient(makeClient({ url, schema, ...options, ...times }, client.library)),
            schema,
            namespace,
            shard,
            synchronousCommit: false,
            lockMs: leaseMs / 6,
            pollMs: 50,
          });
        },
      });
    },
  };
}

describe.each(waysToRun())('on PostgreSQL in real time, by $name', async (way) => {
  const schema = `real_${randomUUID().slice(0, 8)}`;
  const opened = await openWay(way);
  const { client, options, url } = opened;
  const times = { timeoutMs: 10_000, connectTimeoutMs: 10_000 };
  const admin = makeClient({ url, schema, ...options, ...times }, client.library);
  await admin.open();
  afterAll(async () => {
    await admin.call(`drop schema ${quoted(schema)} cascade`, []);
    await admin.close();
    await opened.close();
  });

  const real = subject(opened, schema, admin);
  for (const { promise, run, skip, title } of [...coordinatorConformance(real), ...inboxConformance(real)]) {
    if ((isLong || PROMISES.has(promise)) && skip === undefined)
      test(title, { concurrent: true, timeout: 60_000 }, run);
  }
});
