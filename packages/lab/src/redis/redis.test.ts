import { readFileSync } from 'node:fs';
import { Redis } from 'ioredis';
import { afterEach, describe, expect, test } from 'vitest';
import { whyNoMovingClock } from '../moving-clock.js';
import { TestProxy } from '../TestProxy.js';
import { until } from '../until.js';
import { serverPrograms } from './programs.js';
import { RedisServer } from './RedisServer.js';

const opened: Redis[] = [];
afterEach(() => {
  for (const client of opened.splice(0)) client.disconnect();
});

function client(port: number): Redis {
  const made = new Redis(port, '127.0.0.1', { retryStrategy: () => 20, commandTimeout: 300, maxRetriesPerRequest: 0 });
  made.on('error', () => {});
  opened.push(made);
  return made;
}

describe.each(serverPrograms())('the lab on $name', (program) => {
  test('a server without persistence forgets at a kill, one with it does not', async () => {
    await using forgets = await RedisServer.start({ program });
    await using keeps = await RedisServer.start({ program, persistence: 'aof' });
    for (const server of [forgets, keeps]) await server.ask('SET', 'a', '1');

    for (const server of [forgets, keeps]) await server.restart();

    expect(await forgets.ask('GET', 'a')).toBeNull();
    expect(await keeps.ask('GET', 'a')).toBe('1');
    await keeps.restart({ wipe: true });
    expect(await keeps.ask('GET', 'a')).toBeNull();
  });

  test('older data put back is what the server then has', async () => {
    await using server = await RedisServer.start({ program, persistence: 'aof' });
    await server.ask('SET', 'a', 'old');
    const saved = server.save();
    await server.ask('SET', 'a', 'new');

    await server.putBack(saved);

    expect(await server.ask('GET', 'a')).toBe('old');
  });

  test('a frozen server answers nothing until it thaws', async () => {
    await using server = await RedisServer.start({ program });
    const redis = client(server.port);
    await redis.set('a', '1');

    await server.freeze();
    await expect(redis.get('a')).rejects.toThrow(/timed out/);
    server.thaw();

    await until('it answers again', async () => (await redis.get('a')) === '1');
  });

  test('users and TLS hold', async () => {
    await using server = await RedisServer.start({ program, tls: true, users: ['user bot on >secret ~a &* +get'] });

    const bot = new Redis({
      port: server.port,
      username: 'bot',
      password: 'secret',
      tls: { ca: server.certificates!.ca },
      enableReadyCheck: false,
    });
    opened.push(bot);

    expect(await bot.get('a')).toBeNull();
    await expect(bot.set('a', '1')).rejects.toThrow(/NOPERM/);
  });

  test.skipIf(whyNoMovingClock() !== undefined)('its clock moves by what it is told, both ways', async () => {
    await using server = await RedisServer.start({ program, clock: true });
    const offMs = async () => Number(((await server.ask('TIME')) as string[])[0]) * 1000 - Date.now();
    await server.ask('SET', 'a', '1', 'PX', '60000');

    await server.moveClock(3_600_000);
    expect(await offMs()).toBeGreaterThan(3_590_000);
    await until('what expires in a minute has gone', async () => (await server.ask('GET', 'a')) === null);

    await server.moveClock(-7_200_000);
    expect(await offMs()).toBeLessThan(-3_590_000);
  });
});

test('a server leaves no process and no folder', async () => {
  const server = await RedisServer.start();
  const { pid, folder } = server;

  await server[Symbol.asyncDispose]();

  expect(() => process.kill(pid, 0)).toThrow(/ESRCH/);
  expect(() => readFileSync(`${folder}/server.conf`)).toThrow(/ENOENT/);
});

test('a server that cannot start says why', async () => {
  await expect(RedisServer.start({ config: ['no-such-setting 1'] })).rejects.toThrow(/no-such-setting/);
});

describe('a proxy', () => {
  test('holds back what a cut hides, and delivers it when the way opens', async () => {
    await using server = await RedisServer.start();
    await using proxy = await TestProxy.start(server.port);
    const redis = client(proxy.port);
    await redis.set('a', '0');

    proxy.set('cut-up');
    await expect(redis.incr('a')).rejects.toThrow(/timed out/);
    expect(await server.ask('GET', 'a')).toBe('0');
    proxy.set('open');
    await until('the late command has run', async () => (await server.ask('GET', 'a')) === '1');

    proxy.set('cut-down');
    await expect(redis.incr('a')).rejects.toThrow(/timed out/);
    expect(await server.ask('GET', 'a')).toBe('2');
  });

  test('delays, resets, and leads to another server', async () => {
    await using server = await RedisServer.start();
    await using other = await RedisServer.start();
    await using proxy = await TestProxy.start(server.port);
    const redis = client(proxy.port);
    await redis.set('a', 'one');

    proxy.delay(100);
    const before = performance.now();
    await redis.get('a');
    expect(performance.now() - before).toBeGreaterThan(190);
    proxy.delay(0);

    proxy.turnTo(other.port);
    const lost = new Promise((resolve) => redis.once('close', resolve));
    proxy.reset();
    await lost;
    await until('the other one answers', async () => (await redis.get('a')) === null);
  });
});
