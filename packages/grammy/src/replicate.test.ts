import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { MemoryStateStore } from '@botmesh/core';
import { systemClock } from '@botmesh/core/spi';
import { MemoryCoordinator, MemoryMesh } from '@botmesh/core/testing';
import { FakeTelegram, type FakeTelegramOptions } from '@botmesh/telegram/testing';
import { Bot, type Context, type SessionFlavor, session } from 'grammy';
import { afterEach, expect, test, vi } from 'vitest';
import {
  nodeListener,
  type Replica,
  type ReplicateOptions,
  replicate,
  sequentialize,
  sessionStorage,
} from './index.js';

const LEASE_MS = 3_000;
type MyContext = Context & SessionFlavor<{ count: number }>;
const closing: (() => unknown)[] = [];
const unhandled = vi.fn();
process.on('unhandledRejection', unhandled);

afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
  expect(unhandled).not.toHaveBeenCalled();
});

async function platform(options: FakeTelegramOptions = {}): Promise<FakeTelegram> {
  const fake = await FakeTelegram.start(options);
  closing.push(() => fake.stop());
  return fake;
}

const grammy = (fake: FakeTelegram): Bot<MyContext> =>
  new Bot<MyContext>(fake.token, { client: { apiRoot: fake.apiRoot } });

interface Made {
  readonly bot: Bot<MyContext>;
  readonly replica: Replica;
  readonly coordinator: MemoryCoordinator;
  readonly log: string[];
}

async function start(
  fake: FakeTelegram,
  mesh: MemoryMesh,
  teach: (bot: Bot<MyContext>) => unknown,
  options: Partial<ReplicateOptions<MyContext>> & { maxAttempts?: number } = {},
): Promise<Made> {
  const coordinator = new MemoryCoordinator({ mesh, leaseMs: LEASE_MS, maxAttempts: options.maxAttempts ?? 5 });
  const bot = grammy(fake);
  teach(bot);
  const log: string[] = [];
  const { maxAttempts: _, ...rest } = options;
  const replica = replicate(bot, { coordinator, log: (line) => log.push(line), retryDelayMs: 1, ...rest });
  await replica.start();
  closing.push(() => replica.stop({ drainMs: 1_000 }));
  return { bot, replica, coordinator, log };
}

const echo = (bot: Bot<MyContext>) => bot.on('message:text', (ctx) => ctx.reply(`echo ${ctx.message.text}`));

// C-40, C-42
test('three replicas: one polls, each message is answered once and in order, also over two hand-overs', async () => {
  const fake = await platform();
  const mesh = new MemoryMesh();
  const made = [];
  for (let n = 0; n < 3; n++) made.push(await start(fake, mesh, echo));
  await fake.until('one polls', () => fake.polling === 1);

  const said: string[] = [];
  for (let n = 0; n < 40; n++) {
    said.push(`echo ${n}`);
    fake.say(1 + (n % 2), `${n}`);
    if (n === 10) await made[0]!.replica.stop();
    if (n === 25) await made[1]!.replica.stop();
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  await fake.until('all is answered', () => fake.calls.length >= 40);

  expect(fake.textsTo(1)).toEqual(said.filter((_, n) => n % 2 === 0));
  expect(fake.textsTo(2)).toEqual(said.filter((_, n) => n % 2 === 1));
  expect([fake.mostPolling, fake.conflicts]).toEqual([1, 0]);
  expect(made[2]!.log[0]).toMatch(/WARNING: only one replica may receive from grammy, but the coordinator is in this/);
});

test('an update is confirmed when it is accepted, not when it is handled; a poller that dies after that loses nothing', async () => {
  const fake = await platform();
  const mesh = new MemoryMesh();
  let isHanging = true;
  const a = await start(fake, mesh, (bot) =>
    bot.on('message', async (ctx) => {
      if (isHanging) await new Promise((resolve) => setTimeout(resolve, 30_000).unref());
      await ctx.reply('from a');
    }),
  );
  await fake.until('a polls', () => fake.polling === 1);
  fake.say(1, 'x');
  await fake.until('it is confirmed', () => fake.pending === 0);

  isHanging = false;
  await start(fake, mesh, (bot) => bot.on('message', (ctx) => ctx.reply('from b')));
  a.coordinator.crash();
  await fake.until('b answers', () => fake.calls.length > 0);

  expect(fake.textsTo(1)).toEqual(['from b']);
});

// C-44, C-65
test('a poller outside the mesh: this one says so, waits longer each time, and goes on when the other has gone', async () => {
  const fake = await platform();
  const conflicts: number[] = [];
  const { log } = await start(fake, new MemoryMesh(), echo, {
    onConflict: ({ delayMs }) => conflicts.push(delayMs),
    pollSeconds: 1,
  });
  await fake.until('it polls', () => fake.polling === 1);

  const over = new AbortController();
  const stranger = fetch(`${fake.apiRoot}/bot${fake.token}/getUpdates?timeout=20`, { signal: over.signal }).catch(
    () => {},
  );
  await vi.waitFor(() => expect(conflicts).toHaveLength(1), 5_000);
  over.abort();
  await stranger;
  fake.say(1, 'x');
  await fake.until('it is answered', () => fake.calls.length === 1);

  expect(conflicts).toEqual([1_000]);
  expect(log.join('\n')).toMatch(/getUpdates: 409 Conflict: terminated by other getUpdates .* asks again in 1 s/);
});

// C-64, C-57, C-60
test('a webhook is answered when the update is taken in; a wrong secret is 401, a body that is none 400, and memory is warned of', async () => {
  const fake = await platform({ redeliverMs: 20 });
  const mesh = new MemoryMesh();
  let finish = (): void => {};
  const { replica, log } = await start(
    fake,
    mesh,
    (bot) =>
      bot.on('message', async (ctx) => {
        await new Promise<void>((resolve) => (finish = resolve));
        await ctx.reply('done');
      }),
    { webhook: { secretToken: 'sesame', path: '/hook' } },
  );
  const server = createServer(nodeListener(replica)).listen(0, '127.0.0.1');
  closing.push(() => server.close().closeAllConnections());
  await new Promise((resolve) => server.once('listening', resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook`;
  const post = async (body: string, secret?: string) =>
    (await fetch(url, { method: 'POST', body, headers: secret ? { 'x-telegram-bot-api-secret-token': secret } : {} }))
      .status;

  expect(await post('{}')).toBe(401);
  expect(await post('{}', 'sesam')).toBe(401);
  expect(await post('{', 'sesame')).toBe(400);
  expect(await post('{"message":{}}', 'sesame')).toBe(400);
  await fetch(`${fake.apiRoot}/bot${fake.token}/setWebhook?url=${encodeURIComponent(url)}&secret_token=sesame`);
  fake.say(1, 'x');
  await fake.until('it is taken', () => fake.pending === 0);
  expect(fake.calls).toEqual([]);
  await vi.waitFor(() => {
    finish();
    expect(fake.textsTo(1)).toEqual(['done']);
  });

  expect(fake.deliveries.map(({ status }) => status)).toEqual([200]);
  expect(log.join('\n')).toMatch(
    /WARNING: grammy receives by webhook, but the coordinator is in this process's memory/,
  );
  await replica.stop();
  expect(await post('{"update_id":9,"message":{"chat":{"id":1}}}', 'sesame')).toBe(503);
});

test('sessions follow the chat from replica to replica, and a crash loses no count', async () => {
  const fake = await platform();
  const mesh = new MemoryMesh();
  const store = new MemoryStateStore();
  const count = (bot: Bot<MyContext>): void => {
    bot.use(session({ initial: () => ({ count: 0 }), storage: sessionStorage(store) }));
    bot.on('message', (ctx) => ctx.reply(`${++ctx.session.count}`));
  };
  const a = await start(fake, mesh, count);
  await fake.until('a polls', () => fake.polling === 1);
  fake.say(7, 'x');
  await fake.until('one', () => fake.calls.length === 1);

  await a.replica.stop();
  await start(fake, mesh, count);
  fake.say(7, 'x');
  await fake.until('two', () => fake.calls.length === 2);

  expect(fake.textsTo(7)).toEqual(['1', '2']);
});

test('a session that does not serialise fails its update by name, and the update is kept', async () => {
  const fake = await platform();
  const store = new MemoryStateStore();
  const { replica, log } = await start(
    fake,
    new MemoryMesh(),
    (bot) => {
      bot.use(session({ initial: () => ({ count: 0 }), storage: sessionStorage(store) }));
      bot.on('message', (ctx) => void Object.assign(ctx.session, { at: new Date(0) }));
      bot.catch(({ error }) => {
        throw error;
      });
    },
    { maxAttempts: 2 },
  );

  fake.say(1, 'x');

  await vi.waitFor(async () => expect(await replica.parked()).toHaveLength(1), 5_000);
  expect(log.join('\n')).toMatch(/value\.data\.at is a Date, expected plain JSON data/);
});

test('what bot.catch takes care of is handled; what it throws again is tried again in its place', async () => {
  const fake = await platform();
  const caught: unknown[] = [];
  let failures = 0;
  await start(fake, new MemoryMesh(), (bot) => {
    bot.hears('caught', () => {
      throw new Error('caught');
    });
    bot.hears('again', (ctx) => {
      if (++failures < 3) throw new Error('again');
      return ctx.reply('at last');
    });
    bot.on('message', (ctx) => ctx.reply('after'));
    bot.catch(({ error }) => {
      caught.push((error as Error).message);
      if ((error as Error).message === 'again') throw error;
    });
  });

  for (const text of ['caught', 'again', 'x']) fake.say(1, text);
  await fake.until('all is answered', () => fake.calls.length === 2);

  expect(caught).toEqual(['caught', 'again', 'again']);
  expect(fake.textsTo(1)).toEqual(['at last', 'after']);
});

test('a replica that was cut off in its turn sends nothing, and another one answers', async () => {
  const fake = await platform();
  const mesh = new MemoryMesh();
  const failed: unknown[] = [];
  let isFirst = true;
  let a: Made | undefined;
  const slow = (name: string) => (bot: Bot<MyContext>) => {
    bot.on('message', async (ctx) => {
      if (isFirst) {
        isFirst = false;
        a!.coordinator.crash();
        await new Promise((resolve) => setTimeout(resolve, 50));
      }
      await ctx.reply(name).catch((error: unknown) => {
        failed.push(error);
        throw error;
      });
    });
  };
  a = await start(fake, mesh, slow('a'));
  await fake.until('a polls', () => fake.polling === 1);
  fake.say(1, 'x');
  await start(fake, mesh, slow('b'));
  await fake.until('it is answered', () => fake.calls.length > 0);
  await vi.waitFor(() => expect(failed).toHaveLength(1));

  expect(fake.textsTo(1)).toEqual(['b']);
});

test('updates with no chat, of no known kind, or for which keys throw are handled or kept, never dropped', async () => {
  const fake = await platform();
  const seen: string[] = [];
  const { replica } = await start(
    fake,
    new MemoryMesh(),
    (bot) => bot.use((ctx) => void seen.push(Object.keys(ctx.update)[1] ?? 'none')),
    {
      maxAttempts: 1,
      keys: (ctx) => {
        if (ctx.msg?.text === 'throw') throw new Error('planted');
        return ctx.chatId?.toString();
      },
    },
  );

  fake.update({ inline_query: { id: '1', from: { id: 5 }, query: 'q', offset: '' } });
  fake.update({ something_new: { of: 'tomorrow' } });
  fake.say(1, 'throw');

  await vi.waitFor(async () => expect(await replica.parked()).toHaveLength(1), 5_000);
  await vi.waitFor(() => expect(seen.toSorted()).toEqual(['inline_query', 'something_new']));
  expect((await replica.parked())[0]).toMatchObject({ error: expect.stringContaining('keys threw Error') });
});

test('sequentialize holds several keys across replicas; with replicate it takes those that are not held yet', async () => {
  const fake = await platform();
  const mesh = new MemoryMesh();
  const coordinators = [new MemoryCoordinator({ mesh }), new MemoryCoordinator({ mesh })];
  let running = 0;
  let most = 0;
  let done = 0;
  const bots = coordinators.map((coordinator) => {
    const bot = grammy(fake);
    bot.use(sequentialize(coordinator, (ctx) => [String(ctx.chatId), 'shared']));
    bot.on('message', async () => {
      most = Math.max(most, ++running);
      await new Promise((resolve) => setTimeout(resolve, 1));
      running -= 1;
      done += 1;
    });
    return bot;
  });
  for (const coordinator of coordinators) await coordinator.start();
  closing.push(() => Promise.all(coordinators.map((coordinator) => coordinator.stop())));
  await Promise.all(bots.map((bot) => bot.init()));

  const updates = Array.from({ length: 30 }, (_, n) => fake.say(1 + (n % 5), 'x')!);
  await Promise.all(updates.map((update, n) => bots[n % 2]!.handleUpdate(update as never)));

  expect([most, done]).toEqual([1, 30]);
});

test('a Telegram that takes connections and never answers is given up, told of, and keeps nobody from stopping', async () => {
  const silent = createServer(() => {}).listen(0, '127.0.0.1');
  closing.push(() => silent.close().closeAllConnections());
  await new Promise((resolve) => silent.once('listening', resolve));
  const apiRoot = `http://127.0.0.1:${(silent.address() as AddressInfo).port}`;
  const setTimer = (delayMs: number, run: () => void) => systemClock.setTimer(delayMs >= 15_000 ? 50 : delayMs, run);
  const errors: string[] = [];
  const replicaOf = (options: object) => {
    const replica = replicate(new Bot<MyContext>('1:t', { client: { apiRoot } }), {
      coordinator: new MemoryCoordinator(),
      clock: { ...systemClock, setTimer },
      log: () => {},
      onError: (error) => void errors.push((error as Error).message),
      ...options,
    });
    closing.push(() => replica.stop({ drainMs: 0 }));
    return replica;
  };

  const posted = replicaOf({ webhook: { secretToken: 'sesame' } });
  await expect(posted.start()).rejects.toThrow('Telegram: getMe: no answer within 15000 ms');
  const polled = replicaOf({});
  await polled.start();
  await vi.waitFor(() => expect(errors.join()).toContain('grammy: no answer within 23000 ms'));
  await polled.stop();
});

test('what cannot work is refused by name', async () => {
  const fake = await platform();
  const coordinator = new MemoryCoordinator();
  const refusal = (bot: unknown, options: object): unknown => {
    try {
      return replicate(bot as Bot, options as ReplicateOptions);
    } catch (error) {
      return `${(error as { code: string }).code}: ${(error as Error).message}`;
    }
  };

  expect(refusal({}, { coordinator })).toMatch(/^config: replicate\(\): no grammY bot/);
  expect(refusal(grammy(fake), {})).toMatch(/^config: grammY: no coordinator/);
  expect(refusal(grammy(fake), { coordinator, key: 1 })).toMatch(/^config: .*no option 'key'/);
  expect(refusal(grammy(fake), { coordinator, webhook: {} })).toMatch(/^config: .*no secretToken/);
  expect(refusal(grammy(fake), { coordinator, keys: 'chat' })).toMatch(/^config: .*keys is string/);
  expect(refusal(grammy(fake), { coordinator, pollSeconds: 99 })).toMatch(/^config: .*pollSeconds/);
  const bot = grammy(fake);
  replicate(bot, { coordinator });
  expect(refusal(bot, { coordinator })).toMatch(/^config: .*bound already/);
});
