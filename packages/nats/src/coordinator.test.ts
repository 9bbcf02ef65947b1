import { randomUUID } from 'node:crypto';
import { type ConformanceSubject, coordinatorConformance, inboxConformance, storeMesh } from '@botmesh/core/testing';
import { afterAll, describe, test } from 'vitest';
import { Desk, openServer } from '../testing/stores.js';
import { Link } from './clients/Link.js';
import { SharedLink } from './clients/SharedLink.js';
import { NatsStore } from './NatsStore.js';
import { placeOf } from './namespace.js';

const LEASE_MS = 3_000;

/** What the virtual suites cannot show: that the server's own clock and order do. */
const PROMISES = new Set([1, 4, 9, 13]);

function subject(url: string, desk: Desk): ConformanceSubject {
  return {
    name: 'nats',
    async open({ shards = 1, leaseMs = LEASE_MS } = {}) {
      const namespace = randomUUID();
      const places = Array.from({ length: shards }, (_, shard) => placeOf(namespace, shard));
      for (const place of places) await desk.bear(place);
      return storeMesh({
        leaseMs,
        shards,
        createStore: (shard) => {
          const times = { timeoutMs: leaseMs / 6, connectTimeoutMs: leaseMs / 3 };
          const wanted = { servers: [url], client: undefined, connection: undefined, domain: undefined, ...times };
          return new NatsStore({
            link: new SharedLink(() => Link.open(wanted)),
            place: places[shard]!,
            wish: { replicas: undefined, maxBytes: undefined },
            timeoutMs: leaseMs / 6,
          });
        },
        close: async () => {
          for (const place of places) await desk.remove(place);
        },
      });
    },
  };
}

describe('on NATS in real time', async () => {
  const server = await openServer();
  const desk = await Desk.open(server.url);
  afterAll(async () => {
    await desk[Symbol.asyncDispose]();
    await server.close();
  });

  const real = subject(server.url, desk);
  const suite = [...coordinatorConformance(real), ...inboxConformance(real)];
  for (const { promise, run, skip, title } of suite) {
    if (PROMISES.has(promise) && skip === undefined) test(title, { concurrent: true, timeout: 60_000 }, run);
  }
});
