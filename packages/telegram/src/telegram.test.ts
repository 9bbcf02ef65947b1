import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Bot, type Context } from '@botmesh/core';
import type { IncomingMessage, Intake, Provider } from '@botmesh/core/spi';
import { MemoryCoordinator, MemoryMesh, type OpenProvider, providerConformance } from '@botmesh/core/testing';
import type { Update } from '@grammyjs/types';
import { afterEach, describe, expect, test } from 'vitest';
import { recordings, updatesIn } from '../testing/recorded.js';
import { migrationOf, type Sent, type TelegramError, telegram } from './index.js';
import { KINDS, type TelegramKind } from './kinds.js';
import { callOf } from './outgoing.js';
import { messageOf } from './receive.js';
import { FakeTelegram } from './testing.js';

const closing: (() => unknown)[] = [];

afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

async function start(teach: (bot: Bot) => unknown, mesh = new MemoryMesh(), given?: FakeTelegram) {
  const fake = given ?? (await FakeTelegram.start());
  if (given === undefined) closing.push(() => fake.stop());
  const log: string[] = [];
  const provider = telegram({ token: fake.token, apiRoot: fake.apiRoot, log: (line) => log.push(line) });
  const coordinator = new MemoryCoordinator({ mesh });
  const bot = new Bot({ provider, coordinator, retryDelayMs: 1, log: (line) => log.push(line) });
  teach(bot);
  await bot.start();
  closing.push(() => bot.stop());
  return { fake, bot, log };
}

const context = { signal: new AbortController().signal, fence: 1, key: 'k' };

/** What each recording is. Some hold no update, as their makers never filled them in. */
const RECORDED: Readonly<Record<string, readonly string[]>> = {
  'chat-replay.json': ['message', 'message'],
  'types-callback_query.json': [],
  'types-channel_post.json': [],
  'types-edited_message.json': ['edit'],
  'types-forwarded_message.json': ['message'],
  'types-inline_query.json': [],
  'types-message.json': ['message'],
  'types-message_with_contact.json': [],
  'types-message_with_entities.json': [],
  'types-message_with_location.json': ['message'],
  'types-message_with_migrate_to_chat_id.json': [],
  'types-message_with_new_chat_members.json': [],
  'types-message_with_photo.json': ['message'],
  'types-message_with_sticker.json': ['message'],
  'types-message_with_voice.json': ['message'],
  'types-pre_checkout_query.json': ['checkout'],
  'types-reply_message.json': ['message'],
};

// Does not compile when the Bot API has a kind of update that is not here.
const ALL: Readonly<Record<Exclude<keyof Update, 'update_id'>, TelegramKind>> = KINDS;

describe('what comes', () => {
  test('each kind of update that the Bot API has is known', () => {
    for (const [name, kind] of Object.entries(ALL)) {
      expect(messageOf({ update_id: 1, [name]: {} }, '9')).toMatchObject({ kind });
    }
  });

  test.each(recordings())('$file: every recorded update is a message of a known kind', ({ file, content }) => {
    const updates = updatesIn(content);
    const messages = updates.map((update) => messageOf(update, '100'));
    const kinds = messages.map((message) => (typeof message === 'string' ? message : message.kind));

    expect({ file, kinds }).toEqual({ file, kinds: RECORDED[file] });
    expect(messages.map((message) => (message as { raw: unknown }).raw)).toEqual(updates);
  });

  test('kinds, topics, people without a chat, and what nobody knows', () => {
    const chat = { id: -100, type: 'supergroup' };
    const of = (content: object) => {
      const {
        chat: name,
        kind,
        text,
        from,
      } = messageOf({ update_id: 7, ...content }, '9') as {
        chat: string;
        kind?: string;
        text: string;
        from?: string;
      };
      return [name, kind, text, from];
    };

    expect(of({ message: { chat, text: 'a', from: { id: 1 } } })).toEqual(['-100', 'message', 'a', '1']);
    expect(of({ message: { chat, text: 'a', is_topic_message: true, message_thread_id: 4 } })[0]).toBe('-100/4');
    expect(of({ edited_message: { chat, caption: 'c' } })).toEqual(['-100', 'edit', 'c', undefined]);
    expect(of({ callback_query: { from: { id: 1 }, data: 'd', message: { chat } } })).toEqual([
      '-100',
      'callback',
      'd',
      '1',
    ]);
    expect(of({ message: { chat, new_chat_members: [] } })[1]).toBe('join');
    expect(of({ message_reaction: { chat, user: { id: 1 }, new_reaction: [{ type: 'emoji', emoji: '👍' }] } })).toEqual(
      ['-100', 'reaction', '👍', '1'],
    );
    expect(of({ inline_query: { from: { id: 5 }, query: 'q' } })).toEqual(['5', 'inline', 'q', '5']);
    expect(of({ poll: { id: 'p' } })).toEqual(['alone:9:7', 'poll', '', undefined]);
    expect(of({ business_message: { chat: { id: 5 }, business_connection_id: 'c', text: 'a' } })[0]).toBe(
      'business:c:5',
    );
    expect(of({ message: { chat, pinned_message: {} } })[1]).toBe('service');
    expect(of({ of_tomorrow: 5 })).toEqual(['alone:9:7', 'unknown', '', undefined]);
    expect(of({})).toEqual(['alone:9:7', 'unknown', '', undefined]);
    for (const bad of [{}, { update_id: 'x' }, { update_id: 1.5 }]) expect(messageOf(bad, '9')).toMatch(/update_id/);
  });
});

test('what a group became is told by both of its names', () => {
  const of = (content: object) => migrationOf(messageOf({ update_id: 1, message: content }, '9') as IncomingMessage);

  expect(of({ chat: { id: -5 }, migrate_to_chat_id: -1005 })).toEqual({ from: '-5', to: '-1005' });
  expect(of({ chat: { id: -1005 }, migrate_from_chat_id: -5 })).toEqual({ from: '-5', to: '-1005' });
  expect(of({ chat: { id: -5 }, text: 'a' })).toBeUndefined();
});

describe('what goes', () => {
  test('what cannot be sent is refused by its member, before it leaves', () => {
    const refused = (reply: object, chat = '5') => {
      try {
        return callOf(chat, { text: 'secret words', ...reply });
      } catch (error) {
        const { reason, message } = error as TelegramError;
        expect(message).not.toContain('secret words');
        return `${reason} ${message}`;
      }
    };

    expect(refused({}, 'alone:9:7')).toMatch(/^invalid .*cannot be written to/);
    expect(refused({ photo: 'a', video: 'b' })).toMatch(/photo and video/);
    expect(refused({ photo: {} })).toMatch(/photo needs an id, a link or data/);
    expect(refused({ photo: { id: 'a', link: 'b' } })).toMatch(/photo needs/);
    expect(refused({ sticker: 'a' })).toMatch(/sticker has no caption/);
    expect(refused({ buttons: [{ id: 'é'.repeat(33), title: 'x' }] })).toMatch(/66 bytes/);
    expect(refused({ buttons: [{ id: 'x' }] })).toMatch(/no title/);
  });

  test('business chats, one row of buttons, answers to a message, reactions and edits of buttons', () => {
    expect(callOf('business:c:5', { text: 'a' }).payload).toEqual({
      business_connection_id: 'c',
      chat_id: 5,
      text: 'a',
    });
    expect(callOf('5', { text: 'a', replyTo: 3, buttons: [{ id: 'y', title: 'x' }] }).payload).toEqual({
      chat_id: 5,
      text: 'a',
      reply_parameters: { message_id: 3 },
      reply_markup: { inline_keyboard: [[{ text: 'x', callback_data: 'y' }]] },
    });
    expect(callOf('5', { text: '', reaction: { to: 3, emoji: '👍' } })).toEqual({
      method: 'setMessageReaction',
      payload: { chat_id: 5, message_id: 3, reaction: [{ type: 'emoji', emoji: '👍' }] },
    });
    expect(callOf('5', { text: '', edit: 3, buttons: [] }).method).toBe('editMessageReplyMarkup');
  });

  test('bytes are uploaded, numbers of messages told, files fetched by id, and too long ones refused', async () => {
    await using fake = await FakeTelegram.start();
    const sent: unknown[] = [];
    const onSent = (each: Sent) => sent.push(each);
    const provider = telegram({ token: fake.token, apiRoot: fake.apiRoot, onSent });
    const data = new Uint8Array([1, 2, 3]);

    await provider.send('5', { text: 'c', document: { data, filename: 'a.bin' } }, context);

    expect(fake.calls.map(({ method, payload }) => [method, payload])).toEqual([
      ['sendDocument', { chat_id: '5', caption: 'c', document: 'a.bin' }],
    ]);
    expect(sent).toEqual([{ chat: '5', id: 1, key: 'k' }]);
    const [id] = fake.files.keys();
    expect(await provider.download(id!)).toEqual({ data: Buffer.from(data), filename: 'a.bin' });
    await expect(provider.download(id!, { maxBytes: 2 })).rejects.toMatchObject({ reason: 'too-big' });
    await expect(provider.download('none')).rejects.toMatchObject({ reason: 'not-found' });
  });

  test('a call without an answer is unknown, one that never left is not, and neither says the token', async () => {
    const silent = createServer((_request, response) => void response.destroy());
    await once(silent.listen(0, '127.0.0.1'), 'listening');
    const apiRoot = `http://127.0.0.1:${(silent.address() as AddressInfo).port}`;
    const provider = telegram({ token: '100:test', apiRoot });
    const failure = async () =>
      String(await Promise.resolve(provider.send('5', { text: 'a' }, context)).catch((e) => e));

    const unknown = await failure();
    silent.close();
    await once(silent, 'close');
    const unreachable = await failure();

    expect(unknown).toMatch(/^DeliveryUnknownError: /);
    expect(unreachable).toMatch(/could not be reached \(ECONNREFUSED\)/);
    expect(unknown + unreachable).not.toContain(':test');
  });

  test('errors have a reason, and nothing that Telegram quotes', async () => {
    await using fake = await FakeTelegram.start();
    const provider = telegram({ token: fake.token, apiRoot: fake.apiRoot });
    const failure = async (status: number, description: string) => {
      fake.refuse(status, description);
      return Promise.resolve(provider.send('5', { text: 'a' }, context)).catch((error: unknown) => error);
    };

    expect(await failure(403, 'Forbidden: bot was blocked by the user')).toMatchObject({
      reason: 'blocked',
      status: 403,
    });
    expect(await failure(400, 'Bad Request: chat not found')).toMatchObject({ reason: 'not-found' });
    expect(await failure(401, 'Unauthorized')).toMatchObject({ reason: 'token' });
    expect(await failure(500, 'Internal Server Error')).toMatchObject({ code: 'delivery-unknown' });
    const quoting = await failure(
      400,
      `Bad Request: can't parse entities: Unsupported start tag "secret" at byte offset 0`,
    );
    expect(quoting).toMatchObject({ reason: 'invalid' });
    expect(String(quoting)).not.toContain('secret');
  });

  test('what is so already is done: an edit that changes nothing, a message that is gone, an answer too late', async () => {
    await using fake = await FakeTelegram.start();
    const provider = telegram({ token: fake.token, apiRoot: fake.apiRoot });

    fake.refuse(400, 'Bad Request: message is not modified: specified new message content is the same');
    await provider.send('5', { text: 'a', edit: 3 }, context);
    fake.refuse(400, 'Bad Request: message to delete not found');
    await provider.send('5', { text: '', remove: 3 }, context);
    fake.refuse(400, 'Bad Request: query is too old and response timeout expired or query ID is invalid');
    await provider.send('5', { text: 'a', answer: 'q' }, context);

    expect(fake.calls.map(({ status }) => status)).toEqual([400, 400, 400]);
  });

  test('a button that is pressed stops waiting once its callback is taken in', async () => {
    const { fake } = await start((bot) =>
      bot.when({ kind: 'callback' }, (ctx) => ctx.reply(`pressed ${ctx.message.text}`)),
    );

    const { callback_query: query } = fake.press(1, 'yes') as unknown as { callback_query: { id: string } };
    await fake.until('both are out', () => fake.calls.length === 2);

    const answers = fake.calls.filter(({ method }) => method === 'answerCallbackQuery');
    expect(answers.map(({ payload }) => payload)).toEqual([{ callback_query_id: query.id }]);
    expect(fake.textsTo(1)).toEqual(['pressed yes']);
  });

  test('a checkout, an inline query and a button are answered at once, though the chat is busy; one of which nothing is said is not', async () => {
    const fake = await FakeTelegram.start();
    closing.push(() => fake.stop());
    const log: string[] = [];
    const provider = telegram({
      token: fake.token,
      apiRoot: fake.apiRoot,
      log: (line) => log.push(line),
      answer: ({ kind, text }) => {
        if (text === 'fails') throw new RangeError('planted');
        if (kind === 'checkout') return { ok: true };
        return { inline: { results: [], cache_time: 0 }, callback: { text: 'Noted' } }[kind ?? ''];
      },
    });
    const bot = new Bot({ provider, coordinator: new MemoryCoordinator(), log: () => {} });
    let open: () => void = () => {};
    const gate = new Promise<void>((resolve) => {
      open = resolve;
    });
    const heard: unknown[] = [];
    bot.use(async ({ message }) => {
      heard.push(message.kind);
      await gate;
    });
    await bot.start();
    closing.push(() => bot.stop());
    const from = { id: 5, is_bot: false, first_name: 'Ana' };
    fake.say(5, 'busy');
    await fake.until('the chat is busy', () => heard.length === 1);

    fake.update({ pre_checkout_query: { id: 'c', from, currency: 'EUR', total_amount: 1, invoice_payload: 'p' } });
    fake.update({ inline_query: { id: 'i', from, query: 'q', offset: '' } });
    fake.update({ inline_query: { id: 'f', from, query: 'fails', offset: '' } });
    fake.update({ shipping_query: { id: 's', from, invoice_payload: 'p' } });
    fake.press(5, 'yes');
    await fake.until('three are answered', () => fake.calls.length === 3);
    expect(heard).toEqual(['message']);
    open();
    await fake.until('all are handled', () => heard.length === 6);

    const answers = fake.calls.map(({ method, payload }) => [method, payload]);
    expect(answers).toContainEqual(['answerPreCheckoutQuery', { ok: true, pre_checkout_query_id: 'c' }]);
    expect(answers).toContainEqual(['answerInlineQuery', { results: [], cache_time: 0, inline_query_id: 'i' }]);
    expect(answers).toContainEqual(['answerCallbackQuery', { text: 'Noted', callback_query_id: expect.any(String) }]);
    expect(fake.calls).toHaveLength(3);
    expect(heard).toEqual(['message', 'checkout', 'inline', 'inline', 'shipping', 'callback']);
    expect(log).toEqual(['telegram: a query was not answered (inline, RangeError).']);
  });

  test('an album comes one picture after the other, in order and known by its group; posts, topics and business chats apart', async () => {
    const heard: unknown[] = [];
    const { fake, bot } = await start((each) =>
      each.use(({ message: { chat, kind, text, raw } }) => {
        const { message } = raw as { message?: { media_group_id?: string } };
        heard.push([chat, kind, text, message?.media_group_id]);
      }),
    );
    const group = { id: -100, type: 'supergroup', is_forum: true };
    const photo = [{ file_id: 'f', file_unique_id: 'u', width: 1, height: 1 }];
    const picture = (n: number): object => ({
      message_id: n,
      chat: group,
      date: 1,
      photo,
      caption: `${n}`,
      media_group_id: 'g',
    });

    for (const n of [1, 2, 3]) fake.update({ message: picture(n) });
    fake.update({ channel_post: { message_id: 4, chat: { id: -200, type: 'channel' }, date: 1, text: 'post' } });
    fake.update({
      message: { message_id: 5, chat: group, date: 1, text: 'topic', message_thread_id: 9, is_topic_message: true },
    });
    fake.update({
      business_message: { message_id: 6, chat: { id: 5 }, business_connection_id: 'b', date: 1, text: 'shop' },
    });
    fake.update({ of_tomorrow: { chat: group } });
    await fake.until('all are handled', () => heard.length === 7);
    await bot.stop();

    const inGroup = heard.filter((each) => (each as unknown[])[0] === '-100');
    expect(inGroup).toEqual([
      ['-100', 'message', '1', 'g'],
      ['-100', 'message', '2', 'g'],
      ['-100', 'message', '3', 'g'],
      ['-100', 'unknown', '', undefined],
    ]);
    expect(heard).toContainEqual(['-200', 'message', 'post', undefined]);
    expect(heard).toContainEqual(['-100/9', 'message', 'topic', undefined]);
    expect(heard).toContainEqual(['business:b:5', 'message', 'shop', undefined]);
  });

  test('texts, topics, buttons, files, edits, removals, typing and answers are calls of the Bot API', () => {
    expect(callOf('5', { text: 'a' })).toEqual({ method: 'sendMessage', payload: { chat_id: 5, text: 'a' } });
    expect(callOf('-100/4', { text: 'a' }).payload).toEqual({ chat_id: -100, message_thread_id: 4, text: 'a' });
    expect(
      callOf('5', {
        text: 'a',
        buttons: [
          [
            { id: 'y', title: 'x' },
            { title: 'z', url: 'https://x.y' },
          ],
        ],
      }).payload.reply_markup,
    ).toEqual({
      inline_keyboard: [
        [
          { text: 'x', callback_data: 'y' },
          { text: 'z', url: 'https://x.y' },
        ],
      ],
    });
    expect(callOf('5', { text: 'a', buttons: [{ id: 'y', title: 'x' }] }).payload.reply_markup).toEqual({
      inline_keyboard: [[{ text: 'x', callback_data: 'y' }]],
    });
    expect(callOf('5', { text: 'c', photo: 'https://x.y/p' })).toEqual({
      method: 'sendPhoto',
      payload: { chat_id: 5, photo: 'https://x.y/p', caption: 'c' },
    });
    expect(callOf('5', { text: 'n', edit: 3 }).method).toBe('editMessageText');
    expect(callOf('5', { text: '', remove: 3 })).toEqual({
      method: 'deleteMessage',
      payload: { chat_id: 5, message_id: 3 },
    });
    expect(callOf('5', { text: '', typing: true }).method).toBe('sendChatAction');
    expect(callOf('5', { text: 'ok', answer: 'q', telegram: { show_alert: true } })).toEqual({
      method: 'answerCallbackQuery',
      payload: { callback_query_id: 'q', text: 'ok', show_alert: true },
    });
  });

  // C-67
  test('a limit is waited out, a group that moved is followed, and what cannot be sent fails without the token', async () => {
    const { fake, log } = await start((bot) => bot.use((ctx) => ctx.reply(`echo ${ctx.message.text}`)));
    fake.limit(1, { chat: 1 });
    fake.say(1, 'a');
    fake.say(1, 'b');
    await fake.until('both are answered', () => fake.textsTo(1).length === 2);

    fake.migrate(-5, -1005);
    fake.say(-5, 'old name');
    await fake.until('it is followed', () => fake.textsTo(-1005).includes('echo old name'));
    fake.refuse(403, 'Forbidden: bot was blocked by the user', { chat: 2 });
    fake.say(2, 'secret words');
    await fake.until('it is sent after all', () => fake.textsTo(2).length === 1);

    expect(fake.textsTo(1)).toEqual(['echo a', 'echo b']);
    expect(log.join('\n')).toContain('403 Forbidden');
    expect(log.join('\n')).not.toMatch(/:test|secret words/);
  });
});

// C-40, C-42
test('two replicas: one polls, and the other goes on when it stops', async () => {
  const mesh = new MemoryMesh();
  const echo = (bot: Bot) => bot.use((ctx: Context) => ctx.reply(ctx.message.text));
  const a = await start(echo, mesh);
  await a.fake.until('one polls', () => a.fake.polling === 1);
  await start(echo, mesh, a.fake);

  for (let n = 0; n < 20; n++) {
    a.fake.say(1, `${n}`);
    if (n === 10) await a.bot.stop();
  }
  await a.fake.until('all is answered', () => a.fake.calls.length >= 20);

  expect(a.fake.textsTo(1)).toEqual(Array.from({ length: 20 }, (_, n) => `${n}`));
  expect([a.fake.mostPolling, a.fake.conflicts]).toEqual([1, 0]);
});

describe('the suite for providers', () => {
  const tests = providerConformance({
    name: 'telegram',
    open: openForSuite,
    secrets: [SECRET, ':test'],
    webhook: {
      maxBytes: 1_000_000,
      body: ([message]) => bodyOf(message!),
      call: (body) => callWith(SECRET, body),
      forge: (body) => callWith('another secret', body),
    },
  });

  test.each(tests)('$title', ({ run }) => run());
});

const SECRET = 'sesame';
const names = ['', 'ana', 'ben'];

function bodyOf({ id, chat, text }: { id: string; chat: string; text: string }): string {
  const from = { id: names.indexOf(chat), type: 'private' };
  return JSON.stringify({ update_id: Number(id.slice(1)), message: { chat: from, from, text } });
}

function callWith(secret: string, body: string | Uint8Array<ArrayBuffer>): Request {
  const headers = { 'x-telegram-bot-api-secret-token': secret };
  return new Request('http://localhost/', { method: 'POST', headers, body });
}

/** Telegram's chats and updates have numbers: the names of the suite are translated. */
async function openForSuite(): Promise<OpenProvider> {
  const fake = await FakeTelegram.start();
  const inner = telegram({ token: fake.token, apiRoot: fake.apiRoot, webhook: { secretToken: SECRET } });
  const named = (take: Intake): Intake => {
    return (message) => take({ ...message, chat: names[+message.chat]!, id: message.id!.replace('100:', 'm') });
  };
  let intake: Intake = () => Promise.reject(new Error('not started'));
  const provider: Provider = {
    name: inner.name,
    start: (take) => {
      intake = take;
      return inner.start(named(take));
    },
    stop: () => inner.stop(),
    send: (chat, reply, context) => inner.send(String(names.indexOf(chat)), reply, context),
    webhook: (request, take) => inner.webhook!(request, named(take)),
  };
  const deliver = async (message: { id: string; chat: string; text: string }): Promise<boolean> =>
    (await provider.webhook!(callWith(SECRET, bodyOf(message)), intake)).ok;
  const sent = () =>
    fake.calls
      .filter(({ status }) => status === 200)
      .map(({ payload }) => ({ chat: names[payload.chat_id as number]!, text: payload.text as string }));
  return { provider, deliver, sent, refuseNextSend: () => fake.refuse(403, 'Forbidden'), close: () => fake.stop() };
}

test('a token that is taken no more gives the poll up to another replica, which may have the next one', async () => {
  const fake = await FakeTelegram.start();
  closing.push(() => fake.stop());
  const mesh = new MemoryMesh();
  const elected: string[] = [];
  for (const replicaId of ['a', 'b']) {
    const coordinator = new MemoryCoordinator({ mesh, replicaId });
    coordinator.on('elected', () => elected.push(replicaId));
    const provider = telegram({ token: fake.token, apiRoot: fake.apiRoot, log: () => {} });
    const bot = new Bot({ provider, coordinator, log: () => {} });
    bot.onError(() => {});
    await bot.start();
    closing.push(() => bot.stop());
  }
  await fake.until('one polls', () => fake.polling === 1);

  fake.refuse(401, 'Unauthorized', { method: 'getUpdates' });
  fake.say(1, 'hi');
  await fake.until('the other one polls', () => elected.length === 2 && fake.polling === 1);

  expect(elected).toEqual(['a', 'b']);
  expect(fake.mostPolling).toBe(1);
});

test('options that cannot work are refused by name', () => {
  expect(() => telegram({ token: 'x' })).toThrow(/no token/);
  expect(() => telegram({ token: '1:a', webhook: { secretToken: '' } })).toThrow(/no secretToken/);
  expect(() => telegram({ token: '1:a', pollSeconds: 60 })).toThrow(/pollSeconds/);
  expect(() => telegram({ token: '1:a', tokens: 1 } as never)).toThrow(/no option 'tokens'/);
});
