import { spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { stateConformance } from '@botmesh/core/testing';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { TestServer } from '../testing/lab.js';
import { RedisStateStore } from './index.js';

let server: TestServer;
beforeAll(async () => {
  server = await TestServer.start();
});
afterAll(() => server[Symbol.asyncDispose]());

let meshes = 0;

describe('redis state', () => {
  const suite = stateConformance({
    name: 'redis',
    async open() {
      const options = { url: server.url, namespace: `state-${++meshes}` };
      const [store, other] = [new RedisStateStore(options), new RedisStateStore(options)];
      return {
        store,
        other,
        close: async () => {
          await Promise.all([store.close(), other.close()]);
        },
      };
    },
  });
  for (const { title, run, skip } of suite) test(title, { skip: skip !== undefined }, run);

  test('a state with a time to live goes after it, and each save begins it anew', async () => {
    const store = new RedisStateStore({ url: server.url, namespace: 'ttl', ttlMs: 60_000 });
    await store.save('k', 1, 1);
    await server.ask('PEXPIRE', '{ttl:state:k}', '5000');

    await store.save('k', 2, 2);
    expect(Number(await server.ask('PTTL', '{ttl:state:k}'))).toBeGreaterThan(50_000);

    await server.ask('PEXPIRE', '{ttl:state:k}', '1');
    await expect.poll(() => store.load('k')).toBeNull();
    await store.close();
  });

  test('a server that is away rejects, and is used again when it is back', async () => {
    await using away = await TestServer.start();
    const store = new RedisStateStore({ url: away.url, timeoutMs: 500 });
    await store.save('k', 1, 1);
    await away.kill();

    await expect(store.load('k')).rejects.toMatchObject({ code: 'unavailable' });

    await away.start();
    await expect.poll(() => store.load('k').catch(() => 'away'), { timeout: 10_000 }).toBeNull();
    await store.close();
  });

  test('an open store keeps its process alive, and a closed one lets it end', async () => {
    const run = (last: string): Promise<number | null> => {
      const program = `
        import { RedisStateStore } from '@botmesh/redis';
        const store = new RedisStateStore({ url: '${server.url}', namespace: 'alive' });
        await store.save('k', 1, 1);
        ${last}`;
      const folder = fileURLToPath(new URL('../testing', import.meta.url));
      const child = spawn(process.execPath, ['--input-type=module', '-e', program], { cwd: folder, timeout: 3_000 });
      return new Promise((resolve) => child.once('exit', resolve));
    };

    const [open, closed] = await Promise.all([run(''), run('await store.close();')]);

    // Null: it was still there when its time was over.
    expect({ open, closed }).toEqual({ open: null, closed: 0 });
  });
});
