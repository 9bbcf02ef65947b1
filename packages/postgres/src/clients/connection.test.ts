import { Client, type ClientConfig } from 'pg';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { testClients, urlClients } from '../../testing/clients.js';
import { pgBouncer, TestPooler, TestProxy, TestServer, until, urlBy } from '../../testing/lab.js';
import type { PostgresClient } from './client.js';
import { pgLibrary } from './libraries.js';
import { type ClientOptions, makeClient } from './make-client.js';

const TIMES = { timeoutMs: 400, connectTimeoutMs: 2000 };
const unavailable = { code: 'unavailable' };

let server: TestServer;
let proxy: TestProxy;
const opened: { close(): Promise<void> }[] = [];

beforeAll(async () => {
  server = await TestServer.start();
  proxy = await TestProxy.start(server.port);
  await server.ask('create table counts (name text primary key, n int not null)');
});
afterEach(async () => {
  for (const one of opened.splice(0).reverse()) await one.close();
});
afterAll(async () => {
  await proxy[Symbol.asyncDispose]();
  await server[Symbol.asyncDispose]();
});

const COUNT = 'insert into public.counts as c values ($1, 1) on conflict (name) do update set n = c.n + 1 returning n';

const ways = testClients.map((client) => ({ ...client, through: (url: string) => url }));

async function connect(
  { library, make }: (typeof testClients)[number],
  options: Partial<ClientOptions> = {},
): Promise<PostgresClient> {
  const user = make(urlBy(proxy));
  opened.push(user);
  const client = makeClient({ ...TIMES, ...user.place, ...options }, library);
  opened.push(client);
  await client.open();
  return client;
}

async function hangs(name: string): Promise<void> {
  await until(name, () => proxy.connections === 0);
}

describe.each(ways)('$name', (way) => {
  test('a call gives the first column of the first row as text, whatever its type', async () => {
    const client = await connect(way);

    expect(await client.call('select $1::text', ['ä\'\\"$1 🔑\n'])).toBe('ä\'\\"$1 🔑\n');
    expect(await client.call('select $1::bigint + 1', ['9007199254740993'])).toBe('9007199254740994');
    expect(await client.call('select $1::jsonb', ['{"a": [1]}'])).toBe('{"a": [1]}');
    expect(await client.call('select $1::text', [null])).toBeNull();
    expect(await client.call('select 1 where $1 = $2', ['a', 'b'])).toBeNull();
    expect(await client.call("select true, 'more'", [])).toBe('t');
    const long = 'x'.repeat(2_000_000);
    expect(await client.call('select $1::text', [long])).toBe(long);
  });

  test('calls at the same time do not wait for each other, and leave no more connections than a few', async () => {
    // With time for all of them on a machine that has other things to do.
    const client = await connect(way, { timeoutMs: 10_000 });

    const before = performance.now();
    await Promise.all([1, 2, 3, 4].map(() => client.call('select pg_sleep(0.5)', [])));
    expect(performance.now() - before).toBeLessThan(1_900);
    const answers = await Promise.all(Array.from({ length: 200 }, (_, n) => client.call('select $1::text', [`${n}`])));

    expect(answers).toEqual(Array.from({ length: 200 }, (_, n) => `${n}`));
    expect(proxy.connections).toBeLessThanOrEqual(4);
  });

  test('what the server refuses is told with its code, and without what was sent', async () => {
    const client = await connect(way);

    const refused: unknown = await client.call('select $1::int', ['my secret']).catch((error: unknown) => error);
    const unknown = client.call('select nothing_like_it($1)', ['my secret']);

    expect(refused).toMatchObject({ name: 'DatabaseError', code: '22P02' });
    expect(Object.keys(refused as object).sort()).toEqual(['code', 'name']);
    await expect(unknown).rejects.toMatchObject({ ...unavailable, message: expect.stringContaining('42883') });
    await expect(unknown).rejects.not.toMatchObject({ message: expect.stringContaining('secret') });
    expect(await client.call('select 1', [])).toBe('1');
  });

  test('notifications are heard until that is ended', async () => {
    const client = await connect(way);
    const heard: string[] = [];
    const end = await client.listen(
      'the News "1"',
      (payload) => heard.push(payload),
      () => {},
    );
    await client.listen(
      'other',
      (payload) => heard.push(`other ${payload}`),
      () => {},
    );

    await client.call('select pg_notify($1, $2)', ['the News "1"', 'ü1']);
    await client.call('select pg_notify($1, $2)', ['other', '2']);
    await until('both are heard', () => heard.length === 2);
    await end();
    await client.call('select pg_notify($1, $2)', ['the News "1"', '3']);
    await client.call('select pg_notify($1, $2)', ['other', '4']);
    await until('the last is heard', () => heard.includes('other 4'));

    expect(heard).toEqual(['ü1', 'other 2', 'other 4']);
  });

  test('what listens is connected again after a loss, and tells of the gap', async () => {
    const client = await connect(way);
    const heard: string[] = [];
    let gaps = 0;
    await client.listen(
      'news',
      (payload) => heard.push(payload),
      () => (gaps += 1),
    );

    proxy.reset();
    await until('the gap is told', () => gaps === 1);
    await until(
      'calls work',
      async () => (await client.call('select pg_notify($1, $2)', ['news', 'a']).catch(() => 1)) === '',
    );
    await until('it is heard', () => heard.includes('a'));

    expect(gaps).toBe(1);
  });

  test('whoever listens again to the same channel gets a new connection, and the old one hears no more', async () => {
    const client = await connect(way);
    const heard: string[] = [];
    const [first] = [
      await client.listen(
        'news',
        (payload) => heard.push(`old ${payload}`),
        () => {},
      ),
    ];

    await client.listen(
      'news',
      (payload) => heard.push(payload),
      () => {},
    );
    await first();
    await client.call('select pg_notify($1, $2)', ['news', 'a']);
    await until('it is heard', () => heard.length > 0);

    expect(heard).toEqual(['a']);
  });

  test("a user's client is taken as a pattern, and is neither used nor closed", async () => {
    const user = way.make(server.url());
    opened.push(user);
    await user.ping();
    const client = makeClient({ ...TIMES, ...user.place }, way.library);
    opened.push(client);
    await client.open();
    await client.listen(
      'news',
      () => {},
      () => {},
    );
    expect(await client.call('select 1', [])).toBe('1');

    await client.close();

    expect(await user.ping()).toBeTruthy();
    await until('no connection is left', async () => (await server.connections()) <= 1);
  });

  test('a frozen way costs one time limit, and no call runs when nobody waits for it any more', async () => {
    const client = await connect(way);
    const name = `frozen ${way.name}`;
    await client.call(COUNT, [name]);

    proxy.set('cut');
    const before = performance.now();
    await expect(client.call('select 1', [])).rejects.toMatchObject(unavailable);
    await expect(client.call('select 1', [])).rejects.toMatchObject(unavailable);
    expect(performance.now() - before).toBeLessThan(1200);
    proxy.reset();
    proxy.set('open');
    await until('it works again', async () => (await client.call('select 1', []).catch(() => 0)) === '1');

    expect(await client.call(COUNT, [name])).toBe('2');
  });

  test('a connection that an operator ended is replaced by the next call', async () => {
    const client = await connect(way);
    await client.call('select 1', []);
    await server.ask('select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid()');

    await until('it works again', async () => (await client.call('select 1', []).catch(() => 0)) === '1', 1500);
  });

  test('after close() calls fail at once, nothing stays open, and it can be opened again', async () => {
    const client = await connect(way);
    await client.listen(
      'news',
      () => {},
      () => {},
    );
    const under = client.call('select pg_sleep(1)', []);
    under.catch(() => {});

    await client.close();
    await client.close();

    await expect(under).rejects.toMatchObject(unavailable);
    await expect(client.call('select 1', [])).rejects.toMatchObject(unavailable);
    await hangs('nothing is open');
    await client.open();
    expect(await client.call('select 1', [])).toBe('1');
  });
});

describe.each(urlClients)('$name, while the server is away', (way) => {
  test('calls fail at once, never run later, and work when it is back', async () => {
    const client = await connect(way);
    await client.call(COUNT, [way.name]);
    let gaps = 0;
    await client.listen(
      'news',
      () => {},
      () => (gaps += 1),
    );

    await server.kill();
    proxy.reset();
    await expect(client.call('select 1', [])).rejects.toMatchObject(unavailable);
    const before = performance.now();
    const calls = Array.from({ length: 2000 }, () => client.call(COUNT, [way.name]));
    const answers = await Promise.allSettled(calls);
    expect(performance.now() - before).toBeLessThan(1500);
    await server.start();
    await until('it works again', async () => (await client.call('select 1', []).catch(() => 0)) === '1');
    await until('it listens again', () => gaps > 0);

    expect(answers.filter(({ status }) => status === 'fulfilled')).toEqual([]);
    expect(await client.call(COUNT, [way.name])).toBe('2');
  });

  test('transactions that begin stricter are begun as READ COMMITTED, with a warning', async () => {
    await server.ask("alter role postgres set default_transaction_isolation = 'serializable'");
    const warned: string[] = [];
    const onWarning = ({ message }: Error): unknown => warned.push(message);
    process.on('warning', onWarning);
    try {
      const client = await connect(way, { timeoutMs: 2000 });

      const isolation = await client.call("select current_setting('transaction_isolation') || $1", ['!']);
      await expect(client.call('select 1/$1::int', ['0'])).rejects.toMatchObject({ code: '22012' });

      expect(isolation).toBe('read committed!');
      expect(await client.call('select 1', [])).toBe('1');
      await until('it is warned of', () => warned.some((text) => text.includes('begin as serializable')));
    } finally {
      process.off('warning', onWarning);
      await server.ask('alter role postgres reset default_transaction_isolation');
    }
  });
});

test('a version of pg that takes no function for its socket, as before 8.9, is used as well', async () => {
  class Old extends Client {
    constructor(config: ClientConfig) {
      if (typeof config.stream === 'function') throw new TypeError('this.stream.end is not a function');
      super(config);
    }
  }
  const client = makeClient({ ...TIMES, url: server.url() }, pgLibrary({ Client: Old }));
  opened.push(client);

  await client.open();

  expect(await client.call('select 1', [])).toBe('1');
});

test('a listenUrl that leads to another database is told of', async () => {
  const client = makeClient({ ...TIMES, url: server.url(), listenUrl: await server.database('another') });
  opened.push(client);
  await client.open();

  await expect(
    client.listen(
      'news',
      () => {},
      () => {},
    ),
  ).rejects.toMatchObject({ reason: 'pooler', message: /listenUrl.*the same database/ });
});

describe.skipIf(pgBouncer() === undefined).each(urlClients)('$name, behind PgBouncer', (way) => {
  let pooler: TestPooler;
  beforeAll(async () => {
    pooler = await TestPooler.start(server.port);
  });
  afterAll(() => pooler[Symbol.asyncDispose]());

  async function open(options: Partial<ClientOptions>): Promise<PostgresClient> {
    const client = makeClient({ ...TIMES, timeoutMs: 2000, url: pooler.url(), ...options }, way.library);
    opened.push(client);
    await client.open();
    return client;
  }

  test('calls work, however many share a connection', async () => {
    const clients = await Promise.all(Array.from({ length: 20 }, () => open({ wakeUp: 'poll' })));

    const answers = await Promise.all(
      clients.flatMap((client, n) => [1, 2, 3].map((m) => client.call('select $1::text', [`${n} ${m}`]))),
    );

    expect(answers).toEqual(clients.flatMap((_, n) => [1, 2, 3].map((m) => `${n} ${m}`)));
  });

  test('listening by it is refused with what to do', async () => {
    const client = await open({});

    await expect(
      client.listen(
        'news',
        () => {},
        () => {},
      ),
    ).rejects.toMatchObject({
      code: 'config',
      reason: 'pooler',
      message: expect.stringMatching(/listenUrl.*wakeUp: 'poll'/),
    });
  });

  test('listening by listenUrl, past it, hears', async () => {
    const client = await open({ listenUrl: server.url() });
    const heard: string[] = [];
    await client.listen(
      'news',
      (payload) => heard.push(payload),
      () => {},
    );

    await client.call('select pg_notify($1, $2)', ['news', 'a']);

    await until('it is heard', () => heard.length === 1);
  });
});
