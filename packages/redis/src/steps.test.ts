import { demandSameAnswers, memoryStoreLab, storeConformance } from '@botmesh/core/testing';
import { afterAll, describe, test } from 'vitest';
import { serverPrograms, TestServer } from '../testing/lab.js';
import { virtualLab } from '../testing/stores.js';
import { openConnection } from './clients/open-connection.js';

describe.each(serverPrograms())('step by step on $name', async (program) => {
  const server = await TestServer.start({ program });
  const connection = await openConnection({ url: server.url, timeoutMs: 5_000, connectTimeoutMs: 5_000 });
  const open = virtualLab(connection);
  afterAll(async () => {
    await connection.close();
    await server[Symbol.asyncDispose]();
  });

  const can = ['moveClock', 'restart', 'wipe', 'snapshot'] as const;
  for (const { title, run } of storeConformance({ name: program.name, open, can })) test(title, run);

  const lists = Number(process.env.BOTMESH_LISTS ?? 40);
  test(
    `${lists} random lists of steps are answered as the reference answers them`,
    async () => {
      for (let seed = 1; seed <= lists; seed++) {
        await demandSameAnswers({ reference: memoryStoreLab, subject: open, seed, steps: 60 });
      }
    },
    60_000 + lists * 1_000,
  );
});
