import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Bot, GrammyError } from 'grammy';
import { Telegraf, TelegramError } from 'telegraf';
import testApi from 'telegram-test-api';
import { afterEach, describe, expect, test } from 'vitest';
import { FakeTelegram, type FakeTelegramOptions } from './testing.js';

/** A CommonJS class, which its types put behind a default. */
const TelegramServer = testApi as unknown as typeof testApi.default;
const closing: (() => unknown)[] = [];

afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

async function start(options: FakeTelegramOptions = {}): Promise<FakeTelegram> {
  const fake = await FakeTelegram.start(options);
  closing.push(() => fake.stop());
  return fake;
}

/** A client of the fake: a method and what it answers. */
function client(fake: FakeTelegram) {
  return async (method: string, payload: object = {}, signal?: AbortSignal): Promise<Record<string, unknown>> => {
    const headers = { 'content-type': 'application/json' };
    const init = {
      method: 'POST',
      headers,
      body: JSON.stringify(payload),
      ...(signal === undefined ? {} : { signal }),
    };
    return (await fetch(`${fake.apiRoot}/bot${fake.token}/${method}`, init)).json() as Promise<Record<string, unknown>>;
  };
}

const idsOf = ({ result }: Record<string, unknown>): number[] =>
  (result as { update_id: number }[]).map(({ update_id }) => update_id);

describe('polls', () => {
  test('an update is given again until an offset above it was asked for', async () => {
    const fake = await start();
    const call = client(fake);
    fake.say(1, 'a');
    fake.say(1, 'b');

    expect(idsOf(await call('getUpdates'))).toEqual([1, 2]);
    expect(idsOf(await call('getUpdates', { offset: 2 }))).toEqual([2]);
    expect(idsOf(await call('getUpdates', { offset: 3 }))).toEqual([]);
    expect(fake.pending).toBe(0);
  });

  test('a long poll waits for the next update, and a limit and an offset below 0 are kept', async () => {
    const fake = await start();
    const call = client(fake);

    const waiting = call('getUpdates', { timeout: 20 });
    await fake.until('it waits', () => fake.polling === 1);
    fake.say(5, 'now');
    expect(idsOf(await waiting)).toEqual([1]);
    for (const text of ['b', 'c', 'd']) fake.say(5, text);

    expect(idsOf(await call('getUpdates', { limit: 2 }))).toEqual([1, 2]);
    expect(idsOf(await call('getUpdates', { offset: -1 }))).toEqual([4]);
    expect(idsOf(await call('getUpdates'))).toEqual([4]);
  });

  test('of two pollers the earlier one is ended with 409, and each overlap is counted', async () => {
    const fake = await start();
    const call = client(fake);

    const earlier = call('getUpdates', { timeout: 20 });
    await fake.until('it waits', () => fake.polling === 1);
    const later = call('getUpdates', { timeout: 20 });

    expect(await earlier).toEqual({
      ok: false,
      error_code: 409,
      description: 'Conflict: terminated by other getUpdates request; make sure that only one bot instance is running',
    });
    fake.say(1, 'for the later');
    expect(idsOf(await later)).toEqual([1]);
    expect([fake.mostPolling, fake.conflicts]).toEqual([2, 1]);
  });

  test('a poller that hung up is none', async () => {
    const fake = await start();
    const call = client(fake);
    for (let round = 0; round < 20; round++) {
      const leaving = new AbortController();
      const poll = call('getUpdates', { timeout: 20 }, leaving.signal).catch(() => {});
      await fake.until('it waits', () => fake.polling === 1);
      leaving.abort();
      await poll;
      await call('getUpdates', { timeout: 0 });
    }

    expect([fake.mostPolling, fake.conflicts, fake.polling]).toEqual([1, 0, 0]);
  });

  test('kinds that were not asked for are not kept', async () => {
    const fake = await start();
    const call = client(fake);
    expect(fake.update({ message_reaction: {} })).toBeUndefined();
    await call('getUpdates', { allowed_updates: ['message_reaction'] });

    expect(fake.update({ message_reaction: {} })).toBeDefined();
    expect(fake.say(1, 'x')).toBeUndefined();
  });

  test('a wrong token is 401, a path that is none 404, a broken body 400', async () => {
    const fake = await start();
    const status = async (path: string, body = '{}') =>
      (await fetch(`${fake.apiRoot}${path}`, { method: 'POST', headers: { 'content-type': 'application/json' }, body }))
        .status;

    expect(await status('/bot9:wrong/getMe')).toBe(401);
    expect(await status('/nothing')).toBe(404);
    expect(await status(`/bot${fake.token}/sendMessage`, '{')).toBe(400);
  });
});

describe('sends', () => {
  test('what Telegram refuses is refused: no text, too long a text, a group that has moved', async () => {
    const fake = await start();
    const call = client(fake);
    fake.migrate(-5, -1005);

    expect(await call('sendMessage', { chat_id: 1, text: '' })).toMatchObject({ error_code: 400 });
    expect(await call('sendMessage', { chat_id: 1, text: 'x'.repeat(4097) })).toMatchObject({ error_code: 400 });
    expect(await call('sendMessage', { chat_id: -5, text: 'x' })).toMatchObject({
      error_code: 400,
      parameters: { migrate_to_chat_id: -1005 },
    });
    expect(await call('sendMessage', { chat_id: -1005, text: 'x' })).toMatchObject({ ok: true });
    expect(fake.textsTo(-1005)).toEqual(['x']);
  });

  test('a planned limit is told with retry_after, as often as was said, and a method nobody knows is recorded', async () => {
    const fake = await start();
    const call = client(fake);
    fake.limit(3, { chat: 1 });

    expect(await call('sendMessage', { chat_id: 2, text: 'free' })).toMatchObject({ ok: true });
    expect(await call('sendMessage', { chat_id: 1, text: 'x' })).toMatchObject({
      error_code: 429,
      parameters: { retry_after: 3 },
    });
    expect(await call('sendMessage', { chat_id: 1, text: 'x' })).toMatchObject({ ok: true });
    expect(await call('somethingNew', { deep: true })).toEqual({ ok: true, result: true });
    expect(fake.calls.map(({ method, status }) => `${method} ${status}`)).toEqual([
      'sendMessage 200',
      'sendMessage 429',
      'sendMessage 200',
      'somethingNew 200',
    ]);
  });
});

describe('a webhook', () => {
  interface Received {
    readonly update: { update_id: number; message: { chat: { id: number } } };
    readonly secret: string | undefined;
    readonly atMs: number;
  }

  /** Answers by `statusOf`, and keeps what came. */
  async function receiver(
    statusOf: (received: Received, all: readonly Received[]) => number,
    answer = '',
  ): Promise<{ url: string; all: Received[] }> {
    const all: Received[] = [];
    const server: Server = createServer((request, response) => {
      void (async () => {
        let body = '';
        for await (const chunk of request) body += String(chunk);
        const secret = request.headers['x-telegram-bot-api-secret-token'];
        const received = { update: JSON.parse(body), secret: secret as string | undefined, atMs: performance.now() };
        all.push(received);
        response.writeHead(statusOf(received, all), { 'content-type': 'application/json' }).end(answer);
      })();
    }).listen(0, '127.0.0.1');
    closing.push(() => server.close().closeAllConnections());
    await new Promise((resolve) => server.once('listening', resolve));
    return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook`, all };
  }

  test('is shown the secret, and gets what was refused again, later each time; its chat waits and others do not', async () => {
    const fake = await start({ redeliverMs: 20 });
    const call = client(fake);
    const { url, all } = await receiver(({ update }, got) =>
      update.update_id === 1 && got.filter(({ update: { update_id } }) => update_id === 1).length < 4 ? 503 : 200,
    );
    await call('setWebhook', { url, secret_token: 'sesame' });

    fake.say(1, 'first');
    fake.say(1, 'second');
    fake.say(2, 'elsewhere');
    await fake.until('all were taken', () => fake.pending === 0);

    expect(all.every(({ secret }) => secret === 'sesame')).toBe(true);
    expect(all.map(({ update }) => update.update_id)).toEqual([1, 3, 1, 1, 1, 2]);
    const times = all.filter(({ update }) => update.update_id === 1).map(({ atMs }) => atMs);
    const gaps = times.slice(1).map((at, n) => at - times[n]!);
    expect(gaps[1]).toBeGreaterThan(35);
    expect(gaps[2]).toBeGreaterThan(75);
    expect(await call('getWebhookInfo')).toMatchObject({ result: { url, pending_update_count: 0 } });
  });

  test('keeps polls away with 409, ends the one that is open, and is gone when it was deleted', async () => {
    const fake = await start();
    const call = client(fake);
    const { url } = await receiver(() => 200);
    const open = call('getUpdates', { timeout: 20 });
    await fake.until('it waits', () => fake.polling === 1);

    await call('setWebhook', { url });

    expect(await open).toMatchObject({ error_code: 409, description: 'Conflict: terminated by setWebhook request' });
    expect(await call('getUpdates')).toMatchObject({ error_code: 409 });
    await call('deleteWebhook');
    expect(await call('getUpdates')).toMatchObject({ ok: true });
  });

  test('may answer with a call', async () => {
    const fake = await start();
    const { url } = await receiver(() => 200, JSON.stringify({ method: 'sendMessage', chat_id: 7, text: 'so be it' }));
    await client(fake)('setWebhook', { url });

    fake.say(7, 'x');
    await fake.until('it was called', () => fake.calls.length === 1);

    expect(fake.textsTo(7)).toEqual(['so be it']);
  });
});

describe('the real clients', () => {
  test('grammY polls, answers, hears commands, edits, and learns of 409, 429 and migration', async () => {
    const fake = await start();
    const make = () => new Bot(fake.token, { client: { apiRoot: fake.apiRoot } });
    const bot = make();
    bot.command('start', (ctx) => ctx.reply('Welcome!'));
    bot.on('callback_query:data', (ctx) => ctx.answerCallbackQuery(ctx.callbackQuery.data));
    bot.on('message:text', async (ctx) => {
      const sent = await ctx.reply(`echo ${ctx.message.text}`);
      await ctx.api.editMessageText(ctx.chatId, sent.message_id, 'edited');
    });
    const running = bot.start();
    await fake.until('it polls', () => fake.polling === 1);

    fake.say(3, '/start');
    fake.say(3, 'hi');
    fake.press(3, 'button');
    await fake.until('all was answered', () => fake.calls.length === 4);
    const other = make();
    const second = other.start().catch((error: unknown) => error);
    await expect(running).rejects.toMatchObject({ error_code: 409 });
    await other.stop();
    await second;
    fake.limit(9);
    await expect(bot.api.sendMessage(3, 'x')).rejects.toMatchObject({ parameters: { retry_after: 9 } });
    fake.migrate(-3, -1003);
    const moved = await bot.api.sendMessage(-3, 'x').catch((error: unknown) => error);

    expect(moved).toBeInstanceOf(GrammyError);
    expect((moved as GrammyError).parameters.migrate_to_chat_id).toBe(-1003);
    expect(fake.textsTo(3)).toEqual(['Welcome!', 'echo hi']);
    expect(fake.calls.slice(0, 4).map(({ method }) => method)).toEqual([
      'sendMessage',
      'sendMessage',
      'editMessageText',
      'answerCallbackQuery',
    ]);
  });

  test('Telegraf polls, answers, uploads, and learns of 409 and 429', async () => {
    const fake = await start();
    const make = () => new Telegraf(fake.token, { telegram: { apiRoot: fake.apiRoot } });
    const bot = make();
    bot.start((ctx) => ctx.reply('Welcome!'));
    bot.on('text', async (ctx) => {
      await ctx.reply(`echo ${ctx.message.text}`);
      await ctx.replyWithDocument({ source: Buffer.from('text'), filename: 'a.txt' });
    });
    const running = bot.launch().catch((error: unknown) => error);
    await fake.until('it polls', () => fake.polling === 1);

    fake.say(3, '/start');
    fake.say(3, 'hi');
    await fake.until('all was answered', () => fake.calls.length === 3);
    const other = make();
    const second = other.launch().catch(() => {});
    const ended = await running;
    other.stop();
    await second;
    fake.limit(9);

    expect(ended).toBeInstanceOf(TelegramError);
    expect((ended as TelegramError).code).toBe(409);
    await expect(bot.telegram.sendMessage(3, 'x')).rejects.toMatchObject({ code: 429 });
    expect(fake.textsTo(3)).toEqual(['Welcome!', 'echo hi']);
    expect(fake.calls[2]).toMatchObject({ method: 'sendDocument', payload: { chat_id: '3', document: 'a.txt' } });
  });

  test('grammY sees the same on telegram-test-api, as far as that goes', async () => {
    const fake = await start();
    const peer = new TelegramServer({ port: await freePort(), host: '127.0.0.1' });
    await peer.start();
    closing.push(() => peer.stop());
    const peerClient = peer.getClient('100:test', { chatId: 3, firstName: 'Person 3' });

    async function converse(apiRoot: string, say: (text: string) => unknown): Promise<string[]> {
      const bot = new Bot('100:test', { client: { apiRoot } });
      const seen: string[] = [];
      bot.on('message:text', async (ctx) => {
        const sent = await ctx.reply(`echo ${ctx.message.text}`, { reply_markup: { force_reply: true } });
        seen.push(`${ctx.chatId} ${ctx.chat.type} ${ctx.message.text} -> ${typeof sent.message_id} ${sent.text ?? ''}`);
      });
      const running = bot.start({ timeout: 1 });
      for (const text of ['one', 'two', '/three']) await say(text);
      const untilMs = performance.now() + 10_000;
      while (seen.length < 3 && performance.now() < untilMs) await new Promise((resolve) => setTimeout(resolve, 10));
      await bot.stop();
      await running;
      return seen;
    }

    const there = await converse(peer.config.apiURL, async (text) =>
      peerClient.sendMessage(peerClient.makeMessage(text)),
    );
    const here = await converse(fake.apiRoot, (text) => fake.say(3, text));

    // What a send answers is less there: only that it has a number or text is compared where both have it.
    const heard = (lines: string[]) => lines.map((line) => line.split(' -> ')[0]);
    expect(heard(here)).toEqual(heard(there));
    expect(here).toHaveLength(3);
  });
});

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}
