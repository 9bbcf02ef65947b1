import { randomUUID } from 'node:crypto';
import { type ConformanceSubject, coordinatorConformance, inboxConformance, storeMesh } from '@botmesh/core/testing';
import { afterAll, describe, test } from 'vitest';
import { openServer } from '../testing/told.js';
import type { PostgresClient, WakeUp } from './clients/client.js';
import { makeClient } from './clients/make-client.js';
import { PostgresStore } from './PostgresStore.js';
import { quoted } from './quoting.js';
import { SharedClient } from './SharedClient.js';

const LEASE_MS = 3_000;

/** What the virtual suites cannot show: that the server's own clock, locks and notifications do. */
const PROMISES = new Set([1, 4, 9, 13]);

function subject(url: string, schema: string, admin: PostgresClient, wakeUp: WakeUp): ConformanceSubject {
  return {
    name: `postgres, ${wakeUp}`,
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
        createStore: (shard) => {
          const client = makeClient({
            url,
            schema,
            wakeUp,
            timeoutMs: leaseMs / 6,
            connectTimeoutMs: leaseMs / 3,
          });
          return new PostgresStore({
            client: new SharedClient(client),
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

describe.each(['listen', 'poll'] as const)('on PostgreSQL in real time, replicas that %s', async (wakeUp) => {
  const schema = `real_${randomUUID().slice(0, 8)}`;
  const server = await openServer();
  const admin = makeClient({ url: server.url, schema, timeoutMs: 10_000, connectTimeoutMs: 10_000 });
  await admin.open();
  afterAll(async () => {
    await admin.call(`drop schema ${quoted(schema)} cascade`, []);
    await admin.close();
    await server.close();
  });

  const real = subject(server.url, schema, admin, wakeUp);
  const suite = [...coordinatorConformance(real), ...inboxConformance(real)];
  for (const { promise, run, skip, title } of suite) {
    if (PROMISES.has(promise) && skip === undefined) test(title, { concurrent: true, timeout: 60_000 }, run);
  }
});
