import { randomUUID } from 'node:crypto';
import { type ConformanceSubject, coordinatorConformance, inboxConformance, storeMesh } from '@botmesh/core/testing';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { urlClients } from '../testing/clients.js';
import { pgBouncer, TestPooler, TestServer } from '../testing/lab.js';
import type { Library } from './clients/libraries.js';
import { type ClientOptions, makeClient } from './clients/make-client.js';
import { migrate, PostgresCoordinator } from './index.js';
import { PostgresStore } from './PostgresStore.js';
import { SharedClient } from './SharedClient.js';

const LEASE_MS = 3_000;
/** What a pooler could break: what is kept between calls, notifications, calls made again. */
const PROMISES = new Set([4, 12, 13]);

let server: TestServer;
let pooler: TestPooler;

describe.skipIf(pgBouncer() === undefined)('behind PgBouncer in transaction mode', () => {
  beforeAll(async () => {
    server = await TestServer.start({ config: ['max_connections = 100'] });
    pooler = await TestPooler.start(server.port, ['default_pool_size = 40']);
    await migrate({ url: server.url() });
  });
  afterAll(async () => {
    await pooler?.[Symbol.asyncDispose]();
    await server?.[Symbol.asyncDispose]();
  });

  const [pg, postgres] = urlClients.map(({ library }) => library) as [Library, Library];
  describe('pg, replicas that poll', () => check('pg, poll', () => ({ wakeUp: 'poll' }), pg));
  describe('postgres, replicas that listen past it', () =>
    check('postgres, listenUrl', () => ({ listenUrl: server.url() }), postgres));

  // C-55
  test('start() says what to do when nothing can listen', async () => {
    const coordinator = new PostgresCoordinator({ url: pooler.url(), leaseMs: LEASE_MS });

    await expect(coordinator.start()).rejects.toMatchObject({
      code: 'config',
      message: expect.stringMatching(/pooler of transactions.*listenUrl.*wakeUp: 'poll'/),
    });
  });
});

function check(name: string, way: () => Partial<ClientOptions>, library: Library): void {
  const subject: ConformanceSubject = {
    name,
    async open({ shards = 1, leaseMs = LEASE_MS } = {}) {
      const namespace = randomUUID();
      for (let shard = 0; shard < shards; shard++) {
        await server.ask('insert into botmesh.mesh (namespace, shard, run) values ($1, $2, botmesh.run())', [
          namespace,
          shard,
        ]);
      }
      return storeMesh({
        leaseMs,
        shards,
        createStore: (shard) => {
          const times = { timeoutMs: leaseMs / 6, connectTimeoutMs: leaseMs / 3 };
          const client = makeClient({ url: pooler.url(), ...way(), ...times }, library);
          return new PostgresStore({
            client: new SharedClient(client),
            schema: 'botmesh',
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
  for (const { promise, run, skip, title } of [...coordinatorConformance(subject), ...inboxConformance(subject)]) {
    if (PROMISES.has(promise) && skip === undefined) test(title, { concurrent: true, timeout: 60_000 }, run);
  }
}
