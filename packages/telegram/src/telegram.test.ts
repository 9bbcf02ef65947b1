import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Bot, type Context } from '@botmesh/core';
import type { Intake, Provider } from '@botmesh/core/spi';
import { MemoryCoordinator, MemoryMesh, type OpenProvider, providerConformance } from '@botmesh/core/testing';
import { afterEach, describe, expect, test } from 'vitest';
import { telegram } from './index.js';
import { messageOf } from './receive.js';
import { callOf } from './send.js';
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

const FIXTURES = fileURLToPath(new URL('../../../../shared/fixtures/telegram', import.meta.url));

/** Every update in a recording, however deep. */
function updatesIn(value: unknown): Record<string, unknown>[] {
  if (typeof value !== 'object' || value === null) return [];
  if ('update_id' in value) return [value as Record<string, unknown>];
  return Object.values(value).flatMap(updatesIn);
}

describe('what comes', () => {
  test.skipIf(!existsSync(FIXTURES))(
    `every recorded update is a message of a kind (recordings in ${FIXTURES}; where they are missing this is skipped)`,
    () => {
      const files = readdirSync(FIXTURES).filter((name) => name.endsWith('.json'));
      const updates = files.flatMap((name) => updatesIn(JSON.parse(readFileSync(join(FIXTURES, name), 'utf8'))));

      const messages = updates.map((update) => messageOf(update, '100'));

      expect(updates.length).toBeGreaterThan(3);
      expect(messages.filter((message) => typeof message === 'string')).toEqual([]);
      expect(messages.map((message) => (message as { kind: string }).kind)).not.toContain('unknown');
    },
  );

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
    expect(of({ of_tomorrow: 5 })).toEqual(['alone:9:7', 'unknown', '', undefined]);
    expect(of({})).toEqual(['alone:9:7', 'unknown', '', undefined]);
    for (const bad of [{}, { update_id: 'x' }, { update_id: 1.5 }]) expect(messageOf(bad, '9')).toMatch(/update_id/);
  });
});

describe('what goes', () => {
  test('texts, topics, buttons, files, edits, removals, typing and answers are calls of the Bot API', () => {
    expect(callOf('5', { text: 'a' })).toEqual({ method: 'sendMessage', payload: { chat_id: 5, text: 'a' } });
    expect(callOf('-100/4', { text: 'a' }).payload).toEqual({ chat_id: -100, message_thread_id: 4, text: 'a' });
    expect(
      callOf('5', {
        text: 'a',
        buttons: [
          [
            { text: 'x', data: 'y' },
            { text: 'z', url: 'https://x.y' },
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

test('options that cannot work are refused by name', () => {
  expect(() => telegram({ token: 'x' })).toThrow(/no token/);
  expect(() => telegram({ token: '1:a', webhook: { secretToken: '' } })).toThrow(/no secretToken/);
  expect(() => telegram({ token: '1:a', pollSeconds: 60 })).toThrow(/pollSeconds/);
  expect(() => telegram({ token: '1:a', tokens: 1 } as never)).toThrow(/no option 'tokens'/);
});
