import connect from 'postgres';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { urlClients } from '../testing/clients.js';
import { pgBouncer, TestPooler, TestServer } from '../testing/lab.js';
import { makeClient } from './clients/make-client.js';
import { migrate, PostgresCoordinator } from './index.js';

const LEASE_MS = 3_000;
const TIMES = { timeoutMs: 2000, connectTimeoutMs: 2000 };
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

  describe.each(urlClients)('$name', ({ library }) => {
    test('in session mode it is as if there were none: what listens hears', async () => {
      await using sessions = await TestPooler.start(server.port, ['pool_mode = session']);
      const client = makeClient({ ...TIMES, url: sessions.url() }, library);
      await client.open();
      const heard: string[] = [];
      await client.listen(
        'news',
        (payload) => heard.push(payload),
        () => {},
      );

      await client.call("select pg_notify('news', 'a')", []);

      await expect.poll(() => heard).toEqual(['a']);
      await client.close();
    });

    test('in statement mode, which has no transactions, it is refused with the mode to set', async () => {
      await using statements = await TestPooler.start(server.port, ['pool_mode = statement']);
      const client = makeClient({ ...TIMES, url: statements.url(), wakeUp: 'poll' }, library);

      await expect(client.open()).rejects.toMatchObject({ reason: 'pooler', message: /pool_mode to transaction/ });
      await client.close();
    });

    test('a setting of the login that it does not know is told of', async () => {
      const url = `${pooler.url()}?options=${encodeURIComponent('-c search_path=x')}&search_path=x`;
      const client = makeClient({ ...TIMES, url, wakeUp: 'poll' }, library);

      await expect(client.open()).rejects.toMatchObject({ reason: 'pooler', message: /ignore_startup_parameters/ });
      await client.close();
    });

    test('a server that is away behind it is one that is away', async () => {
      await using empty = await TestPooler.start(1);
      const client = makeClient({ ...TIMES, connectTimeoutMs: 1000, url: empty.url(), wakeUp: 'poll' }, library);

      await expect(client.open()).rejects.toMatchObject({ code: 'unavailable' });
      await client.close();
    });
  });

  test('an instance of postgres that prepares by name is warned of, behind a pooler only', async () => {
    const warned: string[] = [];
    const onWarning = ({ message }: Error): unknown => warned.push(message);
    process.on('warning', onWarning);
    const ways = [
      { url: server.url(), prepare: true },
      { url: pooler.url(), prepare: false },
      { url: pooler.url(), prepare: true },
    ];

    const counts: number[] = [];
    for (const { prepare, url } of ways) {
      const sql = connect(url, { prepare });
      const client = makeClient({ ...TIMES, client: sql, wakeUp: 'poll' });
      await client.open();
      await client.close();
      await sql.end();
      await new Promise((resolve) => setImmediate(resolve));
      counts.push(warned.filter((text) => text.includes('prepare: false')).length);
    }
    process.off('warning', onWarning);

    expect(counts).toEqual([0, 0, 1]);
  });

  test('start() says what to do when nothing can listen', async () => {
    const coordinator = new PostgresCoordinator({ url: pooler.url(), leaseMs: LEASE_MS });

    await expect(coordinator.start()).rejects.toMatchObject({
      code: 'config',
      message: expect.stringMatching(/pooler of transactions.*listenUrl.*wakeUp: 'poll'/),
    });
  });
});
