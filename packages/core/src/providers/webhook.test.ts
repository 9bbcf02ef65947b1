import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { Bot } from '../bot/Bot.js';
import { MemoryCoordinator } from '../coordination/MemoryCoordinator.js';
import { ConfigError, CoordinationUnavailableError, DeliveryError } from '../errors.js';
import { type BotMesh, botMesh, echo } from '../testing/bots.js';
import { providerConformance } from '../testing/provider-conformance.js';
import type { Intake } from './provider.js';
import { SIGNATURE_HEADER, sign, verify } from './signature.js';
import { webhook } from './webhook.js';

const SECRET = 'a long random text';
const HI = { id: 'm1', chat: 'ana', text: 'hi' };

function call(message: unknown, { secret = SECRET, path = '/in', method = 'POST', atMs = Date.now() } = {}): Request {
  const body = typeof message === 'string' ? message : JSON.stringify(message);
  const headers = { [SIGNATURE_HEADER]: sign(secret, body, atMs) };
  return new Request(`http://bot${path}`, { method, headers, ...(method === 'POST' ? { body } : {}) });
}

const never: Intake = () => Promise.reject(new Error('intake was called'));
const provider = webhook({ secret: SECRET, path: '/in', maxBytes: 1000, send: () => {} });
const answer = async (request: Request, intake: Intake = never) => {
  const response = await provider.webhook?.(request, intake);
  if (response === undefined) throw new Error('no webhook');
  return response;
};
const status = async (request: Request, intake?: Intake) => (await answer(request, intake)).status;
const error = async (request: Request) => ((await (await answer(request)).json()) as { error: string }).error;

describe('any webhook provider', () => {
  const MAX_BYTES = 10_000;
  const sealed = (body: string | Uint8Array<ArrayBuffer>, secret: string): Request =>
    new Request('http://bot/in', {
      method: 'POST',
      headers: { [SIGNATURE_HEADER]: sign(secret, body, Date.now()) },
      body,
    });
  const tests = providerConformance({
    name: 'webhook',
    secrets: [SECRET],
    webhook: {
      maxBytes: MAX_BYTES,
      body: ([message]) => JSON.stringify(message),
      call: (body) => sealed(body, SECRET),
      forge: (body) => sealed(body, 'wrong'),
    },
    async open() {
      const sent: { chat: string; text: string }[] = [];
      let isRefusing = false;
      const made = webhook({
        secret: SECRET,
        maxBytes: MAX_BYTES,
        send: (chat, { text }) => {
          if (isRefusing) throw new DeliveryError('refused');
          sent.push({ chat, text });
        },
      });
      let intake = never;
      const start = made.start.bind(made);
      made.start = (take) => {
        intake = take;
        return start(take);
      };
      return {
        provider: made,
        deliver: async (message) => (await made.webhook?.(call(message), intake))?.status === 200,
        sent: () => sent,
        refuseNextSend: () => {
          isRefusing = true;
        },
      };
    },
  });

  test.each(tests)('$title', ({ run }) => run());
});

test('a message has the kind that its field names, and none when it is null', async () => {
  const taken: unknown[] = [];
  const intake: Intake = async ({ kind, raw }) => {
    taken.push([kind, raw]);
    return 'accepted';
  };

  await answer(call({ ...HI, kind: 'edit', more: 1 }), intake);
  await answer(call({ ...HI, kind: null }), intake);

  expect(taken).toEqual([
    ['edit', { more: 1 }],
    [undefined, undefined],
  ]);
});

describe('what is refused, before anything is taken in', () => {
  test('a wrong signature, before the body is parsed', async () => {
    expect(await status(call('not json', { secret: 'wrong' }))).toBe(401);
    expect(await status(call(HI, { atMs: Date.now() - 301_000 }))).toBe(401);
    expect(await status(new Request('http://bot/in', { method: 'POST', body: '{}' }))).toBe(401);
  });

  test('a message that the mesh does not take in for its length', async () => {
    const coordinator = new MemoryCoordinator({ maxBodyBytes: 300 });
    const bot = new Bot({ provider: webhook({ secret: SECRET, send: () => {} }), coordinator, log: () => {} });
    bot.use(() => {});
    await bot.start();
    try {
      const [long, short] = [await bot.webhook(call({ ...HI, text: 'x'.repeat(300) })), await bot.webhook(call(HI))];
      expect([long.status, short.status]).toEqual([413, 200]);
      expect(await long.json()).toEqual({ error: expect.stringMatching(/expected up to 300.*maxBodyBytes/) });
      expect(await short.json()).toEqual({ status: 'accepted' });
    } finally {
      await bot.stop();
    }
  });

  test('a body that is too long, announced or not', async () => {
    const long = { ...HI, text: 'x'.repeat(1001) };
    expect(await status(call(long))).toBe(413);

    let pulled = 0;
    const endless = new ReadableStream({
      pull(controller) {
        pulled++;
        controller.enqueue(new Uint8Array(600));
      },
    });
    const headers = { [SIGNATURE_HEADER]: sign(SECRET, '', Date.now()) };
    const request = new Request('http://bot/in', { method: 'POST', headers, body: endless, duplex: 'half' });
    expect(await status(request)).toBe(413);
    expect(pulled).toBeLessThan(5);
  });

  test.each([
    ['not json', /not JSON/],
    ['\ud800'.concat('"'), /not JSON/],
    [[HI], /JSON object/],
    [null, /JSON object/],
    [{ ...HI, id: undefined }, /^id:/],
    [{ ...HI, id: '' }, /^id:/],
    [{ ...HI, id: 7 }, /^id:/],
    [{ ...HI, chat: '' }, /^chat:/],
    [{ ...HI, chat: null }, /^chat:/],
    [{ ...HI, text: undefined }, /^text:/],
    [{ ...HI, from: {} }, /^from:/],
    [{ ...HI, kind: 7 }, /^kind:/],
  ])('a body that is no message, naming the field: %j', async (body, field) => {
    expect(await status(call(body))).toBe(400);
    expect(await error(call(body))).toMatch(field);
  });

  test('limits that are texts', () => {
    for (const name of ['maxBytes', 'toleranceMs']) {
      expect(() => webhook({ secret: SECRET, send: () => {}, [name]: '5' })).toThrow(`${name} is a string of 1`);
    }
  });

  test('bytes that are not UTF-8', async () => {
    const body = Uint8Array.from([0x22, 0xff, 0x22]);
    const headers = { [SIGNATURE_HEADER]: sign(SECRET, body, Date.now()) };

    expect(await status(new Request('http://bot/in', { method: 'POST', headers, body }))).toBe(400);
  });

  test('another path or method', async () => {
    expect(await status(call(HI, { path: '/other' }))).toBe(404);
    expect(await status(call(HI, { method: 'GET' }))).toBe(405);
  });

  test('options that cannot work', () => {
    expect(() => webhook({ secret: '', send: () => {} })).toThrow(/secret/);
    expect(() => webhook({ secret: [], send: () => {} })).toThrow(/secret/);
    expect(() => webhook({ secret: 's' })).toThrow(/replyUrl/);
    expect(() => webhook({ secret: 's', send: () => {}, replyUrl: 'http://x' })).toThrow(/either/);
    expect(() => webhook({ secret: 7 as never, send: () => {} })).toThrow(/secret/);
  });

  test.each([
    [undefined, /no options/],
    [null, /no options/],
    [{ secret: 's', replyUrl: 'not a url' }, /replyUrl/],
    [{ secret: 's', replyUrl: 'ftp://x/' }, /replyUrl/],
    [{ secret: 's', send: 'x' }, /send/],
    [{ secret: 's', sent: () => {} }, /no option 'sent'/],
    [{ secret: 's', send: () => {}, path: 'hook' }, /path.*slash/],
    [{ secret: 's', send: () => {}, path: 7 }, /path/],
    [{ secret: 's', send: () => {}, maxBytes: Number.NaN }, /maxBytes/],
    [{ secret: 's', send: () => {}, toleranceMs: -1 }, /toleranceMs/],
  ])('options that cannot work are a ConfigError that names them: %j', (options, name) => {
    const make = () => webhook(options as never);

    expect(make).toThrow(ConfigError);
    expect(make).toThrow(name);
  });
});

test('an empty text and any chat are legal, and further fields are kept as raw', async () => {
  const intake = vi.fn<Intake>().mockResolvedValue('accepted');

  expect(await status(call({ id: '1', chat: ' \u0000🔑', text: '', from: null, extra: [1] }), intake)).toBe(200);

  expect(intake).toHaveBeenCalledWith({ id: '1', chat: ' \u0000🔑', text: '', raw: { extra: [1] } });
});

test('503 asks for another delivery when the backend is unavailable', async () => {
  const down: Intake = () => Promise.reject(new CoordinationUnavailableError('unavailable', 'down'));
  const response = await provider.webhook?.(call(HI), down);

  expect(response?.status).toBe(503);
  expect(response?.headers.get('retry-after')).toBe('1');
});

function sender(replyUrl: string) {
  const made = webhook({ secret: SECRET, replyUrl });
  return { send: async (...args: Parameters<typeof made.send>) => made.send(...args) };
}

describe('replies by replyUrl', () => {
  const context = { signal: new AbortController().signal, fence: 7, key: 'ana:m1:0' };
  let answers: { status: number; headers?: Record<string, string> }[];
  let got: { header: string | null; body: Uint8Array }[];
  let url: string;
  let close: () => void;

  beforeEach(async () => {
    answers = [];
    got = [];
    const receive = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
      const chunks: Uint8Array[] = [];
      for await (const chunk of request) chunks.push(chunk as Uint8Array);
      got.push({ header: request.headers[SIGNATURE_HEADER] as string, body: Buffer.concat(chunks) });
      const { status: code, headers } = answers.shift() ?? { status: 200 };
      response.writeHead(code, headers).end();
    };
    const server = createServer((request, response) => void receive(request, response));
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
    close = () => server.close();
  });

  afterEach(() => close());

  test('they are posted and signed, with the chat and an idempotency key', async () => {
    await webhook({ secret: [SECRET, 'old'], replyUrl: url }).send('ana', { text: 'hi', buttons: ['a'] }, context);

    const [{ header, body } = { header: null, body: new Uint8Array() }] = got;
    expect(JSON.parse(new TextDecoder().decode(body))).toEqual({
      chat: 'ana',
      text: 'hi',
      buttons: ['a'],
      key: 'ana:m1:0',
      fence: 7,
    });
    expect(verify(header, body, { secrets: [SECRET], nowMs: Date.now(), toleranceMs: 10_000 })).toBe('valid');
  });

  test('a refusal rejects with DeliveryError, and says when to try again', async () => {
    answers = [{ status: 500 }, { status: 429, headers: { 'retry-after': '2' } }];
    const { send } = sender(url);

    await expect(send('ana', { text: 'hi' }, context)).rejects.toMatchObject({
      code: 'delivery',
      retryAfterMs: undefined,
    });
    await expect(send('ana', { text: 'hi' }, context)).rejects.toMatchObject({ code: 'delivery', retryAfterMs: 2000 });
  });

  test('nobody there rejects with DeliveryError', async () => {
    const { send } = sender('http://127.0.0.1:1/');

    await expect(send('ana', { text: 'hi' }, context)).rejects.toBeInstanceOf(DeliveryError);
  });
});

describe('behind a bot', () => {
  let lab: BotMesh;
  beforeEach(() => {
    lab = botMesh();
  });
  afterEach(() => lab.close());

  test('accepted and duplicate are answered with 200, and handled once', async () => {
    const sent: string[] = [];
    const hooked = webhook({ secret: SECRET, send: (_chat, { text }) => void sent.push(text) });
    const { bot } = await lab.replica(echo, { provider: hooked });

    const first = await bot.webhook(call(HI));
    const second = await bot.webhook(call(HI));
    await bot.webhook(call({ ...HI, id: 'm2', text: 'bye' }));
    await vi.waitFor(() => expect(sent).toHaveLength(2));

    expect([first.status, await first.json()]).toEqual([200, { status: 'accepted' }]);
    expect([second.status, await second.json()]).toEqual([200, { status: 'duplicate' }]);
    expect(sent).toEqual(['echo hi', 'echo bye']);
  });

  test('it is 503 before the start, while the backend is down, and once the bot stops', async () => {
    lab = botMesh({ leaseMs: 900 });
    const hooked = webhook({ secret: SECRET, send: () => {} });
    const { bot, coordinator } = await lab.replica(echo, { provider: hooked });

    lab.mesh.cut(coordinator);
    expect((await bot.webhook(call(HI))).status).toBe(503);
    lab.mesh.heal(coordinator);
    await vi.waitFor(async () => expect((await bot.webhook(call(HI))).status).toBe(200), { timeout: 3000 });
    await bot.stop();

    expect((await bot.webhook(call(HI))).status).toBe(503);
  });
});
