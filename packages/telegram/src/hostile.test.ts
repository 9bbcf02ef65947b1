// What anybody on the way may send, and what may never be seen.
import { once } from 'node:events';
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Bot, DeliveryError, DeliveryUnknownError } from '@botmesh/core';
import type { IncomingMessage } from '@botmesh/core/spi';
import fc from 'fast-check';
import { afterEach, describe, expect, test } from 'vitest';
import { client } from './api.js';
import { telegram } from './index.js';
import { messageOf } from './receive.js';
import { sender } from './send.js';

const TOKEN = '4711:planted-token';
const SECRET = 'planted-secret';
const TEXT = 'planted words';
const RUNS = { seed: 20_261_130, numRuns: 300 };

const KINDS = [
  'message',
  'edited_message',
  'callback_query',
  'message_reaction',
  'inline_query',
  'poll',
  'of_tomorrow',
];
const FIELDS = ['chat', 'from', 'user', 'message', 'text', 'caption', 'data', 'new_reaction', 'user_chat_id', 'id'];
const MORE = ['is_topic_message', 'message_thread_id', 'emoji', 'toString', '__proto__', 'constructor'];

/** Updates as Telegram sends them, with anything at all in any place. */
const oddUpdates = fc
  .tuple(
    fc.oneof(fc.maxSafeInteger(), fc.jsonValue()),
    fc.constantFrom(...KINDS),
    fc.letrec((tie) => ({
      node: fc.oneof(
        { depthSize: 'small' },
        fc.jsonValue({ maxDepth: 1 }),
        fc.dictionary(fc.constantFrom(...FIELDS, ...MORE), tie('node')),
        fc.array(tie('node'), { maxLength: 2 }),
      ),
    })).node,
  )
  .map(([update_id, kind, content]) => JSON.stringify({ update_id, [kind]: content }));

const closing: (() => unknown)[] = [];

afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

function call(body: string | Uint8Array<ArrayBuffer>, secret = SECRET): Request {
  const headers = { 'x-telegram-bot-api-secret-token': secret };
  return new Request('http://localhost/hook', { method: 'POST', headers, body });
}

async function hooked(): Promise<{ bot: Bot; heard: unknown[]; log: string[] }> {
  const provider = telegram({ token: TOKEN, webhook: { secretToken: SECRET, path: '/hook' } });
  const heard: unknown[] = [];
  const log: string[] = [];
  const bot = new Bot({ provider: { ...provider, send() {} }, log: (line) => log.push(line) });
  bot.onError((error) => heard.push(error));
  await bot.start();
  closing.push(() => bot.stop());
  return { bot, heard, log };
}

describe('a webhook call', () => {
  test('of any update is a message or what is wrong with it, and nothing is thrown', () => {
    fc.assert(
      fc.property(oddUpdates, (text) => {
        const found = messageOf(JSON.parse(text) as Record<string, unknown>, '4711') as IncomingMessage | string;
        if (typeof found === 'string') return found.includes('update_id');
        return (
          found.chat !== '' && typeof found.text === 'string' && ['string', 'undefined'].includes(typeof found.from)
        );
      }),
      RUNS,
    );
  });

  test('with any body is answered 200 or 400, and a cut one 400', async () => {
    const { bot, heard } = await hooked();
    const bodies = fc.oneof(oddUpdates, fc.string(), fc.json(), fc.uint8Array({ maxLength: 50 }));

    await fc.assert(
      fc.asyncProperty(bodies, async (body) => {
        const { status } = await bot.webhook(call(body as string));
        return status === 200 || status === 400;
      }),
      RUNS,
    );
    await fc.assert(
      fc.asyncProperty(oddUpdates, fc.double({ min: 0, max: 0.999, noNaN: true }), async (whole, part) => {
        const cut = whole.slice(0, Math.floor(whole.length * part));
        return (await bot.webhook(call(cut))).status === 400;
      }),
      RUNS,
    );

    expect(heard).toEqual([]);
  });

  test('with any other secret is answered 401, and not read', async () => {
    const { bot } = await hooked();
    const secrets = fc.oneof(
      fc.constantFrom('', SECRET.slice(1), `${SECRET}x`, SECRET.toUpperCase()),
      fc.base64String(),
    );

    await fc.assert(
      fc.asyncProperty(secrets, async (secret) => {
        const forged = call(TEXT, secret);
        return (await bot.webhook(forged)).status === 401 && !forged.bodyUsed;
      }),
      RUNS,
    );
  });

  test('nested too deep is answered 400', async () => {
    const { bot, heard } = await hooked();
    const deep = `{"update_id":1,"message":${'['.repeat(400_000)}${']'.repeat(400_000)}}`;

    expect((await bot.webhook(call(deep))).status).toBe(400);
    expect(heard).toEqual([]);
  });

  test('shows neither token, secret nor text, whatever becomes of it', async () => {
    const { bot, heard, log } = await hooked();
    const update = JSON.stringify({ update_id: 1, message: { chat: { id: 5 }, text: TEXT } });
    bot.use(() => {
      throw new Error('mine');
    });

    const answers = [call(update), call(update.slice(0, -1)), call(TEXT), call(update, 'wrong'), call('{}')];
    const told = await Promise.all(answers.map(async (each) => (await bot.webhook(each)).text()));

    expect(planted([...told, ...heard, ...log])).toEqual([]);
  });
});

describe('a send', () => {
  const reply = { text: TEXT };
  const context = { key: 'k', fence: 1, signal: new AbortController().signal };

  async function errorOf(apiRoot: string, timeoutMs = 5_000): Promise<unknown> {
    try {
      return await sender(client(TOKEN, apiRoot), { timeoutMs, onSent: () => {} })('5', reply, context);
    } catch (error) {
      return error;
    }
  }

  async function send(listener: RequestListener, timeoutMs?: number): Promise<unknown> {
    const server = createServer(listener).listen(0, '127.0.0.1');
    await once(server, 'listening');
    closing.push(() => {
      server.close();
      server.closeAllConnections();
    });
    const { port } = server.address() as AddressInfo;
    return errorOf(`http://127.0.0.1:${port}`, timeoutMs);
  }

  test('of which nobody knows whether it arrived says so: cut off, unanswered, or answered by a gateway', async () => {
    const errors = [
      await send(({ socket }) => socket.destroy()),
      await send(() => {}, 50),
      await send((_, answer) => answer.writeHead(502).end('<html>')),
      await send((_, answer) => answer.writeHead(504).end('null')),
      await send((_, answer) => answer.writeHead(307, { location: 'http://127.0.0.1:1/' }).end()),
    ];

    for (const error of errors) expect(error).toBeInstanceOf(DeliveryUnknownError);
    expect(planted(errors)).toEqual([]);
  });

  test('that was refused, or reached nobody, is known not to have arrived', async () => {
    const refused = { ok: false, error_code: 400, description: `Bad Request: unsupported start tag "${TEXT}" at 0` };
    const errors = [
      await send((_, answer) => answer.writeHead(400).end(JSON.stringify(refused))),
      await errorOf(`http://127.0.0.1:${await unusedPort()}`),
    ];

    for (const error of errors) expect(error).toBeInstanceOf(DeliveryError);
    expect(planted(errors)).toEqual([]);
  });
});

async function unusedPort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return port;
}

/** Of what was planted, what can be seen in any of these, their stacks and their causes. */
function planted(found: readonly unknown[]): string[] {
  const seen = found.map(shown).join('\n');
  return [TOKEN, SECRET, TEXT].filter((each) => seen.includes(each));
}

function shown(value: unknown): string {
  return value instanceof Error ? `${value.stack} ${JSON.stringify(value)} ${shown(value.cause)}` : String(value);
}
