import {
  type BotSubject,
  botConformance,
  coordinatorConformance,
  inboxConformance,
  mailroomConformance,
} from '@botmesh/core/testing';
import { afterAll, describe, test } from 'vitest';
import { testClients } from '../testing/clients.js';
import { ServerCluster, TestServer } from '../testing/lab.js';
import { virtualSubject } from '../testing/virtual-mesh.js';
import { openConnection } from './clients/open-connection.js';

const patience = { timeoutMs: 5_000, connectTimeoutMs: 5_000 };

function declare(tests: readonly { title: string; skip?: string; run: () => Promise<void> }[]): void {
  for (const { title, run, skip } of tests) test(title, { skip: skip !== undefined, timeout: 60_000 }, run);
}

describe('bots on redis, in virtual time', async () => {
  const server = await TestServer.start();
  const connection = await openConnection({ url: server.url, ...patience });
  const subject = virtualSubject(connection, server.url);
  afterAll(async () => {
    await connection.close();
    await server[Symbol.asyncDispose]();
  });

  declare([...mailroomConformance(subject), ...botConformance(subject)]);
});

// C-79
describe.each(testClients)('coordinators and inboxes through $name, in virtual time', async ({ library }) => {
  const server = await TestServer.start();
  const connection = await openConnection({ url: server.url, ...patience }, library);
  const subject = virtualSubject(connection, server.url);
  afterAll(async () => {
    await connection.close();
    await server[Symbol.asyncDispose]();
  });

  declare([...coordinatorConformance(subject), ...inboxConformance(subject)]);
});

// C-74
describe('every suite on a Cluster, in virtual time, each mesh on all of its nodes', async () => {
  const cluster = await ServerCluster.start();
  const { url } = cluster.servers[0]!;
  const connection = await openConnection({ url, cluster: true, ...patience });
  const onOne = virtualSubject(connection, url);
  const subject: BotSubject = { ...onOne, open: ({ shards = 6, ...rest } = {}) => onOne.open({ shards, ...rest }) };
  afterAll(async () => {
    await connection.close();
    await cluster[Symbol.asyncDispose]();
  });

  declare([
    ...coordinatorConformance(onOne),
    ...inboxConformance(onOne),
    ...mailroomConformance(onOne),
    ...botConformance(subject),
  ]);
});
