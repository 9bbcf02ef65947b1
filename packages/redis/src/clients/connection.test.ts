import { createHash } from 'node:crypto';
import { inspect } from 'node:util';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { testClients } from '../../testing/clients.js';
import { TestProxy, TestServer, until } from '../../testing/lab.js';
import type { Connection, ConnectionOptions, Script } from './connection.js';
import { openConnection } from './open-connection.js';

const TIMES = { timeoutMs: 400, connectTimeoutMs: 2000 };
const unavailable = { code: 'unavailable' };

function script(text: string): Script {
  return { text, sha: createHash('sha1').update(text).digest('hex') };
}

const ECHO = script("return {ARGV[1], tonumber(ARGV[2]), KEYS[1], redis.call('GET', KEYS[1])}");
const COUNT = script("return redis.call('INCR', KEYS[1])");

describe.each(testClients)('through $name', ({ library, make }) => {
  let server: TestServer;
  let proxy: TestProxy;
  const opened: { close(): Promise<void> }[] = [];

  beforeEach(async () => {
    server = await TestServer.start();
    proxy = await TestProxy.start(server.port);
  });
  afterEach(async () => {
    for (const one of opened.splice(0)) await one.close();
    await proxy[Symbol.asyncDispose]();
    await server[Symbol.asyncDispose]();
  });

  async function connect(options: Partial<ConnectionOptions> = {}): Promise<Connection> {
    const where = options.client === undefined ? { url: `redis://127.0.0.1:${proxy.port}` } : {};
    const connection = await openConnection({ ...TIMES, ...where, ...options }, library);
    opened.push(connection);
    return connection;
  }

  test('a script answers strings, numbers and null alike, and runs without its text once it is known', async () => {
    const connection = await connect();
    await server.ask('SCRIPT', 'FLUSH');

    const first = await connection.evalsha(ECHO, ['ä'], ['text', 7]);
    const again = await connection.evalsha(ECHO, ['ä'], ['text', 7]);

    expect(first).toEqual(['text', 7, 'ä', null]);
    expect(again).toEqual(first);
    expect(await connection.evalsha(COUNT, ['n'], [])).toBe(1);
    const stats = String(await server.ask('INFO', 'commandstats'));
    expect(stats).toMatch(/cmdstat_eval:calls=2,/);
    expect(stats).toMatch(/cmdstat_evalsha:calls=3,/);
  });

  test('errors, and what caused them, tell nothing of the arguments', async () => {
    const connection = await connect();
    const failing = script("return redis.call('HSET', KEYS[1], ARGV[1])");
    const elsewhere = script("return redis.error_reply('READONLY You cannot write here.')");
    const told: unknown[] = [];
    const keep = (error: unknown): void => void told.push(error);

    await connection.evalsha(failing, ['a'], ['SECRET']).catch(keep);
    await connection.command(['NO-SUCH-COMMAND', 'SECRET']).catch(keep);
    await connection.evalsha(elsewhere, ['a'], ['SECRET']).catch(keep);
    await connection.evalsha(elsewhere, ['a'], ['SECRET']).catch(keep);
    const user = server.url.replace('//', '//bot:SECRET@');
    await openConnection({ ...TIMES, url: user }, library).catch(keep);

    expect(told).toHaveLength(5);
    expect(inspect(told, { depth: 20, showHidden: true })).not.toContain('SECRET');
  });

  test('a call with half a million arguments arrives whole', async () => {
    const connection = await connect({ timeoutMs: 30_000 });
    const args = Array.from({ length: 500_000 }, (_, at) => at);

    const answer = await connection.evalsha(script('return {#ARGV, ARGV[#ARGV]}'), ['a'], args);

    expect(answer).toEqual([500_000, '499999']);
  });

  test('what a script replies as an error arrives as it is', async () => {
    const connection = await connect();

    const asked = connection.evalsha(script("return redis.error_reply('NOTGOOD at all')"), ['a'], []);

    await expect(asked).rejects.toThrow(/NOTGOOD at all/);
    expect(await connection.evalsha(COUNT, ['n'], [])).toBe(1);
  });

  test('a channel is heard until that is ended', async () => {
    const connection = await connect();
    const heard: string[] = [];
    const end = await connection.subscribe('news', (message) => heard.push(message));
    await connection.subscribe('other', (message) => heard.push(`other ${message}`));

    await connection.command(['PUBLISH', 'news', 'ü1']);
    await connection.command(['PUBLISH', 'other', '2']);
    await until('both are heard', () => heard.length === 2);
    await end();
    await connection.command(['PUBLISH', 'news', '3']);
    await connection.command(['PUBLISH', 'other', '4']);
    await until('the last is heard', () => heard.includes('other 4'));

    expect(heard).toEqual(['ü1', 'other 2', 'other 4']);
  });

  test("a user's client is taken as a pattern, and is neither used nor closed", async () => {
    const user = make(server.port);
    opened.push(user);
    await user.ping();
    const connection = await connect({ client: user.client });
    await connection.subscribe('news', () => {});

    expect(await connection.evalsha(COUNT, ['n'], [])).toBe(1);
    await connection.close();

    expect(await user.ping()).toBeTruthy();
    await until('only the user and the test are connected', async () => (await clients(server)) === 2);
  });

  test('a command fails at once while the server is away, never runs later, and works when it is back', async () => {
    const connection = await connect();
    let reconnects = 0;
    connection.onReconnect(() => {
      reconnects += 1;
    });
    await connection.evalsha(COUNT, ['n'], []);

    await server.kill();
    await until('the loss is seen', () => fails(connection.command(['INCR', 'n'])));
    const before = performance.now();
    await expect(connection.evalsha(COUNT, ['n'], [])).rejects.toMatchObject(unavailable);
    expect(performance.now() - before).toBeLessThan(200);
    await server.start();
    await until('it is connected again', () => reconnects === 1);

    expect(await server.ask('GET', 'n')).toBeNull();
    expect(await connection.evalsha(COUNT, ['n'], [])).toBe(1);
  });

  test('ten thousand calls while the server is away are refused, and none of them runs later', async () => {
    const connection = await connect();
    await server.kill();
    await until('the loss is seen', () => fails(connection.command(['PING'])));

    const calls = Array.from({ length: 10_000 }, () => connection.evalsha(COUNT, ['n'], []));
    const answers = await Promise.allSettled(calls);
    await server.start();
    await until('it works again', async () => !(await fails(connection.evalsha(COUNT, ['n'], []))));

    expect(answers.filter(({ status }) => status === 'fulfilled')).toEqual([]);
    expect(await server.ask('GET', 'n')).toBe('1');
  });

  test('a frozen server costs one time limit, and another connection is made', async () => {
    const connection = await connect();
    let reconnects = 0;
    connection.onReconnect(() => {
      reconnects += 1;
    });
    await server.freeze();

    const before = performance.now();
    await expect(connection.evalsha(COUNT, ['n'], [])).rejects.toMatchObject(unavailable);
    expect(performance.now() - before).toBeLessThan(2000);
    await expect(connection.evalsha(COUNT, ['n'], [])).rejects.toMatchObject({
      ...unavailable,
      message: expect.stringMatching(/^Not connected to \S+ \(.*[^.]\); trying again\.$/),
    });
    server.thaw();

    await until('it is connected again', () => reconnects === 1);
    expect(await connection.evalsha(COUNT, ['n'], [])).toBeGreaterThanOrEqual(1);
  });

  test('a silent cut and a reset are got over', async () => {
    const connection = await connect();
    proxy.set('cut');
    await expect(connection.evalsha(COUNT, ['n'], [])).rejects.toMatchObject(unavailable);
    proxy.set('open');
    await until('it works again', async () => !(await fails(connection.evalsha(COUNT, ['n'], []))));

    proxy.reset();

    await until('it works again', async () => !(await fails(connection.evalsha(COUNT, ['n'], []))));
  });

  test('channels are heard again after a loss, and that is told', async () => {
    const connection = await connect();
    const heard: string[] = [];
    let reconnects = 0;
    await connection.subscribe('news', (message) => heard.push(message));
    connection.onReconnect(() => {
      reconnects += 1;
    });

    await server.restart();
    await until('both are connected again', () => reconnects >= 2);
    await connection.command(['PUBLISH', 'news', 'after']);

    await until('it is heard', () => heard.length === 1);
    await server.ask('CLIENT', 'KILL', 'TYPE', 'pubsub');
    await until('it is connected again', () => reconnects >= 3);
    await connection.command(['PUBLISH', 'news', 'again']);
    await until('it is heard', () => heard.length === 2);
  });

  test('to subscribe again opens a dead connection anew', async () => {
    const connection = await connect();
    const heard: string[] = [];
    await connection.subscribe('news', (message) => heard.push(message));
    const other = await connect({ url: server.url });

    proxy.set('cut-down');
    await expect(connection.subscribe('news', (message) => heard.push(message))).rejects.toMatchObject(unavailable);
    proxy.set('open');

    await until('it is heard again', async () => {
      await other.command(['PUBLISH', 'news', 'x']);
      return heard.length > 0;
    });
    const former = await connection.subscribe('news', (message) => heard.push(`second ${message}`));
    await other.command(['PUBLISH', 'news', 'y']);
    await until('the newer one hears', () => heard.includes('second y'));
    expect(heard).not.toContain('y');
    await former();
  });

  test('a server that has become a replica is left, and found again', async () => {
    await using primary = await TestServer.start();
    const connection = await connect();
    await server.ask('REPLICAOF', '127.0.0.1', String(primary.port));

    await expect(connection.evalsha(COUNT, ['n'], [])).rejects.toMatchObject({
      code: 'unavailable',
      message: expect.stringContaining('READONLY'),
    });
    proxy.turnTo(primary.port);

    await until('the primary answers', async () => !(await fails(connection.evalsha(COUNT, ['n'], []))));
    expect(Number(await primary.ask('GET', 'n'))).toBe(1);
  });

  test('what was closed answers nothing, leaves nothing and tells nothing', async () => {
    const connection = await connect();
    let reconnects = 0;
    connection.onReconnect(() => {
      reconnects += 1;
    });
    await connection.subscribe('news', () => {});

    await connection.close();
    await connection.close();

    await expect(connection.evalsha(COUNT, ['n'], [])).rejects.toMatchObject(unavailable);
    await expect(connection.subscribe('news', () => {})).rejects.toMatchObject(unavailable);
    await until('nothing is connected', () => proxy.connections === 0);
    expect(reconnects).toBe(0);
  });

  test('what is closed while it reconnects stays closed', async () => {
    const connection = await connect();
    await connection.subscribe('news', () => {});
    await server.kill();
    await until('the loss is seen', () => fails(connection.command(['PING'])));

    await connection.close();
    await server.start();

    await until('nothing is connected', () => proxy.connections === 0);
    expect(await clients(server)).toBe(1);
  });

  test('scripts are forgotten and connections killed between any two commands', async () => {
    const connection = await connect();
    let answered = 0;
    for (let round = 0; round < 12; round++) {
      if (round % 2 === 0) await server.ask('SCRIPT', 'FLUSH');
      if (round % 3 === 0) await server.ask('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
      await until('it answers', async () => {
        await connection.evalsha(COUNT, ['n'], []);
        answered += 1;
        return true;
      });
    }

    expect(answered).toBe(12);
    expect(Number(await server.ask('GET', 'n'))).toBeGreaterThanOrEqual(12);
  });

  test('a thousand commands at once are all answered, in order', async () => {
    const connection = await connect({ timeoutMs: 10_000 });

    const answers = await Promise.all(Array.from({ length: 1000 }, () => connection.evalsha(COUNT, ['n'], [])));

    expect(answers).toEqual(Array.from({ length: 1000 }, (_, n) => n + 1));
  });
});

function fails(call: Promise<unknown>): Promise<boolean> {
  return call.then(
    () => false,
    () => true,
  );
}

async function clients(server: TestServer): Promise<number> {
  return String(await server.ask('CLIENT', 'LIST'))
    .trim()
    .split('\n').length;
}

test.each(testClients.filter(({ name }) => name.startsWith('redis ')))(
  '$name: the length of the queue of commands that a client is limited to is not that of our connection',
  async ({ library, makeWith }) => {
    await using server = await TestServer.start();
    const user = makeWith({ socket: { host: '127.0.0.1', port: server.port }, commandsQueueMaxLength: 1 });
    const connection = await openConnection({ ...TIMES, client: user.client }, library);

    const answers = await Promise.all([1, 2, 3, 4].map(() => connection.evalsha(COUNT, ['n'], [])));

    expect(answers).toEqual([1, 2, 3, 4]);
    await connection.close();
    await user.close();
  },
);
