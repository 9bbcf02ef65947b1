import { botConformance, mailroomConformance } from '@botmesh/core/testing';
import { afterAll, describe, test } from 'vitest';
import { TestServer } from '../testing/lab.js';
import { virtualSubject } from '../testing/virtual-mesh.js';
import { openConnection } from './clients/open-connection.js';

describe('on redis, in virtual time', async () => {
  const server = await TestServer.start();
  const connection = await openConnection({ url: server.url, timeoutMs: 5_000, connectTimeoutMs: 5_000 });
  const subject = virtualSubject(connection, server.url);
  afterAll(async () => {
    await connection.close();
    await server[Symbol.asyncDispose]();
  });

  for (const { title, run, skip } of mailroomConformance(subject)) {
    test(title, { skip: skip !== undefined, timeout: 60_000 }, run);
  }
  for (const { title, run } of botConformance(subject)) test(title, { timeout: 60_000 }, run);
});
