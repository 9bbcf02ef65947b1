import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Bot, CoordinationUnavailableError } from '@botmesh/core';
import { type IncomingMessage, type Intake, nodeListener } from '@botmesh/core/spi';
import { MemoryCoordinator, providerConformance, type SuiteMessage } from '@botmesh/core/testing';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { ask, call, made, never, OURS, SECRET, sending, TOKEN, URL_OF_BOT, VERIFY } from '../testing/hook.js';
import { recorded } from '../testing/recorded.js';
import { type Received, received, type Status, type Update } from './index.js';
import { bodyOf, buttonReply, change, FakeCloudApi, signedHeaders, status, textMessage } from './testing.js';
import { readUpdates } from './updates.js';
import type { WhatsApp } from './whatsapp.js';

const ANA = '16505551234';

let fake: FakeCloudApi;

function startFake(): void {
  beforeEach(async () => {
    fake = await FakeCloudApi.start({ token: TOKEN, appSecret: SECRET });
  });
  afterEach(() => fake[Symbol.asyncDispose]());
}

/** Takes everything in, and remembers it. */
function taker(): { taken: IncomingMessage[]; intake: Intake } {
  const taken: IncomingMessage[] = [];
  return {
    taken,
    intake: async (message) => {
      taken.push(message);
      return 'accepted';
    },
  };
}

describe('any provider, with a webhook that brings several messages', () => {
  const MAX_BYTES = 20_000;
  const oneOf = ({ id, chat, text }: SuiteMessage) => textMessage(chat, text, { id });
  const body = (messages: readonly SuiteMessage[]): string =>
    bodyOf(...messages.map((message) => [change(OURS, { messages: [oneOf(message)] })]));
  const tests = providerConformance({
    name: 'whatsapp',
    naming: { chat: (name) => `${OURS}:${name}` },
    secrets: [TOKEN, SECRET, VERIFY],
    webhook: {
      maxBytes: MAX_BYTES,
      batches: true,
      body,
      call,
      forge: (text) => call(text, 'another secret'),
      events: [
        bodyOf([change(OURS, { statuses: [status('wamid.1', ANA, 'read')] })]),
        bodyOf([{ field: 'message_template_status_update', value: { event: 'APPROVED' } }]),
        bodyOf([]),
        bodyOf(),
      ],
    },
    async open() {
      const cloud = await FakeCloudApi.start({ token: TOKEN });
      const provider = made({ apiUrl: cloud.url, maxBytes: MAX_BYTES });
      let intake = never;
      const start = provider.start.bind(provider);
      provider.start = (take) => {
        intake = take;
        return start(take);
      };
      return {
        provider,
        deliver: async (message) => (await ask(provider, call(body([message])), intake)).status === 200,
        sent: () =>
          cloud.sent.map(({ phoneNumberId, to, body: sent }) => ({
            chat: `${phoneNumberId}:${to}`,
            text: (sent.text as { body: string }).body,
          })),
        refuseNextSend: () => cloud.fail({ code: 131026 }),
        close: () => cloud[Symbol.asyncDispose](),
      };
    },
  });

  test.each(tests)('$title', ({ run }) => run());
});

describe('what was recorded', () => {
  const bodies = recorded();
  const brought = (body: Record<string, unknown>) => {
    const found = readUpdates(body);
    if (typeof found === 'string') throw new Error(found);
    return found;
  };

  test('is all there', () => {
    expect(bodies).toHaveLength(42);
  });

  test.each(bodies)('$name is a typed message, a status or an update, and nothing of it is lost', async ({ body }) => {
    const { messages, statuses, updates } = brought(body);
    const text = JSON.stringify(body);

    const { value } = (body as unknown as { entry: [{ changes: [{ value: Record<string, unknown[]> }] }] }).entry[0]
      .changes[0];
    expect([messages.length, statuses.length]).toEqual([value.messages?.length ?? 0, value.statuses?.length ?? 0]);
    if (messages.length + statuses.length === 0) expect(updates).toMatchObject([{ value }]);
    if (value.errors !== undefined) expect(updates).toMatchObject([{ value: { errors: value.errors } }]);
    for (const { kind, raw, chat, id } of messages) {
      expect(['message', 'callback', 'reaction', 'edit', 'delete', 'system', 'unknown']).toContain(kind);
      expect(text).toContain(JSON.stringify((raw as Received).message));
      expect(chat).toMatch(/^[^:]+:[^:]+$/);
      expect(text).toContain(JSON.stringify(id));
    }
    expect((await ask(made(), call(text), taker().intake)).status).toBe(200);
  });

  test('has these kinds and texts', () => {
    const found = bodies.flatMap(({ name, body }) =>
      brought(body).messages.map(({ kind, text }): [string, string] => [name.replace('pywa-', ''), `${kind}: ${text}`]),
    );

    expect(Object.fromEntries(found)).toMatchObject({
      'chat-replay-dm firstMessage': 'message: What is Vercel?',
      'callback_button button': 'callback: callback_data',
      'callback_button quick_reply': 'callback: callback_data',
      'deleted_message revoke': 'delete: ',
      'edited_message image': 'edit: Updated image caption',
      'message text': 'message: Body Text',
      'message image': 'message: ',
      'message video': 'message: caption',
      'message document': 'message: caption',
      'message voice': 'message: ',
      'message animated_sticker': 'message: ',
      'message reaction': 'reaction: 😮',
      'message unreaction_empty': 'reaction: ',
      'message unreaction_no_emoji': 'reaction: ',
      'message chosen_location': 'message: ',
      'message contacts': 'message: ',
      'message order': 'message: ',
      'message unsupported': 'unknown: ',
      'message unsupported_with_type': 'unknown: ',
      'message interactive_message_with_err': 'unknown: ',
      'message reply': 'message: replied text',
      'message referral': 'message: BODY',
      'system phone_number_change': 'system: User A changed from 972987654321 to 972912345678',
      'system identity_change': 'system: User identity changed',
    });
  });

  test('its statuses name chat, id and why', () => {
    const statuses = bodies.flatMap(({ body }) => brought(body).statuses);

    expect(statuses.map((each) => each.status)).toEqual([
      'sent',
      'sent',
      'delivered',
      'read',
      'played',
      'failed',
      'sent',
      'read',
    ]);
    expect(statuses.find((each) => each.status === 'failed')).toMatchObject({
      chat: '1122334455667:972987654321',
      id: 'wamid.xyzxyz',
      atMs: 1689380458000,
      errors: [{ code: 130472, reason: 'declined', isPassing: false }],
    });
    expect(statuses.find(({ key }) => key !== undefined)?.key).toBe('some data');
    expect(statuses.at(-1)?.chat).toBe('<BUSINESS_PHONE_NUMBER_ID>:group:fowefinoewcnw');
  });
});

describe('a call that is no call of Meta', () => {
  const SEED = Number(process.env.BOTMESH_SEED ?? 20261130);
  const settled = async (body: string | Uint8Array<ArrayBuffer>): Promise<number> => {
    const { taken, intake } = taker();
    const { status: code } = await ask(made(), call(body), intake);
    for (const message of taken) {
      expect(JSON.parse(JSON.stringify(message))).toEqual(message);
      expect([typeof message.chat, typeof message.id, typeof message.text]).toEqual(['string', 'string', 'string']);
    }
    return code;
  };
  const run = (property: fc.IAsyncProperty<unknown>, numRuns: number): Promise<void> =>
    // The seed is in the message of a failure.
    Promise.resolve(fc.assert(property, { seed: SEED, numRuns })) as Promise<void>;

  test('cut off anywhere is answered 400', async () => {
    const whole = JSON.stringify(recorded().find(({ name }) => name.endsWith('media_with_url'))?.body);

    await run(
      fc.asyncProperty(fc.integer({ min: 0, max: whole.length - 1 }), async (length) => {
        expect(await settled(whole.slice(0, length))).toBe(400);
      }),
      300,
    );
  });

  test('of any bytes is answered 400', async () => {
    await run(
      fc.asyncProperty(fc.uint8Array({ maxLength: 300 }), async (bytes) => {
        expect(await settled(new Uint8Array(bytes))).toBe(400);
      }),
      300,
    );
  });

  test('of any JSON is answered 400', async () => {
    await run(
      fc.asyncProperty(fc.json({ maxDepth: 4 }), async (json) => {
        expect(await settled(json)).toBe(400);
      }),
      500,
    );
  });

  test('with anything in the place of any member is answered 200 or 400, and what is taken in is a message', async () => {
    const bodies = recorded().map(({ body }) => body);
    let messages = 0;

    await run(
      fc.asyncProperty(fc.constantFrom(...bodies), fc.nat(), fc.jsonValue({ maxDepth: 2 }), async (body, at, value) => {
        const changed = replaced(body, at, value);
        const code = await settled(JSON.stringify(changed));
        expect([200, 400]).toContain(code);
        if (code === 200) messages++;
      }),
      1_500,
    );

    expect(messages).toBeGreaterThan(100);
  });

  test.each(['constructor', '__proto__', 'toString', 'hasOwnProperty', '', 'text'])(
    'with a message of type %j is unknown, not a crash',
    async (type) => {
      const { taken, intake } = taker();
      const odd = { from: ANA, id: 'wamid.odd', type };

      const { status: code } = await ask(made(), call(bodyOf([change(OURS, { messages: [odd] })])), intake);

      expect(code).toBe(200);
      expect(taken).toMatchObject([{ kind: 'unknown', raw: { message: odd } }]);
    },
  );
});

/** `body` with `value` in the place of its n-th member. */
function replaced(body: Record<string, unknown>, at: number, value: unknown): unknown {
  const places: (() => void)[] = [];
  const copy = structuredClone(body);
  const visit = (node: unknown): void => {
    if (typeof node !== 'object' || node === null) return;
    for (const key of Object.keys(node)) {
      places.push(() => Reflect.set(node, key, value));
      visit(Reflect.get(node, key));
    }
  };
  visit(copy);
  places[at % places.length]?.();
  return copy;
}

describe('one call', () => {
  startFake();

  test('of several entries, changes and messages is taken in in its order, each number apart', async () => {
    const { taken, intake } = taker();
    const text = (from: string, body: string) => textMessage(from, body);
    const body = bodyOf(
      [
        change(OURS, { messages: [text(ANA, '1'), text('447700900000', '2')] }),
        change('999', { messages: [text(ANA, '3')] }),
      ],
      [change(OURS, { messages: [text(ANA, '4')], statuses: [status('wamid.1', ANA, 'delivered')] })],
    );

    expect((await ask(made(), call(body), intake)).status).toBe(200);

    expect(taken.map((message) => [message.chat, message.text])).toEqual([
      [`${OURS}:${ANA}`, '1'],
      [`${OURS}:447700900000`, '2'],
      [`999:${ANA}`, '3'],
      [`${OURS}:${ANA}`, '4'],
    ]);
  });

  test('of a hundred messages in ten chats, with errors, what is not supported and statuses of strangers, loses and mixes nothing', async () => {
    const updates: Update[] = [];
    const statuses: string[] = [];
    const { taken, intake } = taker();
    const provider = made({
      onUpdate: (update) => void updates.push(update),
      onStatus: ({ id }) => void statuses.push(id),
    });
    const numbers = Array.from({ length: 10 }, (_, n) => `1650555000${n}`);
    const messages = Array.from({ length: 100 }, (_, n) => textMessage(numbers[n % 10]!, String(n)));
    const errors = [{ code: 131051, title: 'Message type unknown' }];
    const odd = { from: ANA, id: 'wamid.odd', type: 'unsupported', errors };
    const moved = { type: 'user_changed_number', body: 'ANA changed', wa_id: '1999' };
    const system = { from: ANA, id: 'wamid.system', type: 'system', system: moved };
    const value = { messages: [...messages, odd, system], errors, statuses: [status('wamid.nobody', ANA, 'failed')] };

    const answer = await ask(provider, call(bodyOf([change(OURS, value as never)])), intake);

    expect(answer.status).toBe(200);
    for (const [n, number] of numbers.entries()) {
      const texts = taken.flatMap(({ chat, text }) => (chat === `${OURS}:${number}` ? [Number(text)] : []));
      expect(texts).toEqual(Array.from({ length: 10 }, (_, at) => 10 * at + n));
    }
    expect(taken.slice(100).map(({ kind, raw }) => [kind, raw])).toMatchObject([
      ['unknown', { message: odd }],
      ['system', { message: system }],
    ]);
    expect(statuses).toEqual(['wamid.nobody']);
    expect(updates).toMatchObject([{ field: 'messages', value: { errors } }]);
  });

  test('of three megabytes, as Meta may send, reaches the bot through the listener of core', async () => {
    const { taken, intake } = taker();
    const provider = made();
    const server = createServer(nodeListener({ webhook: (request) => ask(provider, request, intake) }));
    await once(server.listen(0, '127.0.0.1'), 'listening');
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/whatsapp`;
    const post = async (length: number): Promise<number> => {
      const body = bodyOf([change(OURS, { messages: [textMessage(ANA, 'x'.repeat(length))] })]);
      return (await fetch(url, { method: 'POST', body, headers: signedHeaders(SECRET, body) })).status;
    };

    expect(await post(3 * 1024 * 1024 - 1_000)).toBe(200);
    expect(await post(3 * 1024 * 1024)).toBe(413);
    server.close();
    server.closeAllConnections();
    expect(taken).toHaveLength(1);
  });

  test('a person without a number, and a group, are chats that can be answered', async () => {
    const { taken, intake } = taker();
    const provider = made({ apiUrl: fake.url });
    const hidden = { from_user_id: 'US.1349', id: 'wamid.1', type: 'text', text: { body: 'hi' } };
    const inGroup = textMessage(ANA, 'all', { group_id: 'Z3JvdXA=' });

    await ask(provider, call(bodyOf([change(OURS, { messages: [hidden, inGroup] })])), intake);
    for (const { chat } of taken) await provider.send(chat, { text: 'yes' }, sending());

    expect(taken.map(({ chat, from }) => [chat, from])).toEqual([
      [`${OURS}:US.1349`, 'US.1349'],
      [`${OURS}:group:Z3JvdXA=`, ANA],
    ]);
    expect(fake.sent.map(({ body }) => [body.recipient_type, body.recipient, body.to])).toEqual([
      ['individual', 'US.1349', undefined],
      ['group', undefined, 'Z3JvdXA='],
    ]);
  });

  test('for a number that is not served goes to onUpdate, and to no chat', async () => {
    const updates: Update[] = [];
    const provider = made({ phoneNumberIds: [OURS], onUpdate: (update) => void updates.push(update) });
    const stray = textMessage(ANA, 'hi');

    const answer = await ask(provider, call(bodyOf([change('999', { messages: [stray] })])), never);

    expect(answer.status).toBe(200);
    expect(updates).toMatchObject([{ field: 'messages', value: { phoneNumberId: '999', message: stray } }]);
  });

  test('what has no id or no chat goes to onUpdate, and the rest is taken in', async () => {
    const updates: Update[] = [];
    const { taken, intake } = taker();
    const provider = made({ onUpdate: (update) => void updates.push(update) });
    const messages = [{ type: 'text' }, textMessage(ANA, 'hi'), { id: 'wamid.1' }];

    const answer = await ask(provider, call(bodyOf([change(OURS, { messages })])), intake);

    expect(answer.status).toBe(200);
    expect(taken.map(({ text }) => text)).toEqual(['hi']);
    expect(updates).toMatchObject([{ field: 'messages', value: { messages: [{ type: 'text' }, { id: 'wamid.1' }] } }]);
  });

  test('any of several app secrets will do, so that it can change', async () => {
    const provider = made({ appSecret: ['new', 'old'] });
    const body = bodyOf([change(OURS, { messages: [textMessage(ANA, 'hi')] })]);

    for (const secret of ['old', 'new']) {
      expect((await ask(provider, call(body, secret), taker().intake)).status).toBe(200);
    }
    expect((await ask(provider, call(body, 'older'), never)).status).toBe(401);
  });

  test('a wrong signature costs no parsing', async () => {
    const parse = vi.spyOn(JSON, 'parse');
    const body = bodyOf([change(OURS, { messages: [textMessage(ANA, 'hi')] })]);
    const text = vi.spyOn(TextDecoder.prototype, 'decode');

    try {
      expect((await ask(made(), call(body, 'wrong'), never)).status).toBe(401);

      expect(parse).not.toHaveBeenCalled();
      expect(text).not.toHaveBeenCalled();
    } finally {
      parse.mockRestore();
      text.mockRestore();
    }
  });

  test.each(['sha1=00', 'sha256=', `sha256=${'g'.repeat(64)}`, `sha256=${'0'.repeat(63)}`, '0'.repeat(64)])(
    'a malformed signature is answered 401 before the body is read: %s',
    async (signature) => {
      const body = new ReadableStream({ pull: () => Promise.reject(new Error('read')) }, { highWaterMark: 0 });
      const headers = { 'x-hub-signature-256': signature };
      const request = new Request(URL_OF_BOT, { method: 'POST', headers, body, duplex: 'half' } as RequestInit);

      expect((await ask(made(), request, never)).status).toBe(401);
    },
  );
});

describe('the challenge', () => {
  const asked = (query: Record<string, string>, path = '/whatsapp') =>
    ask(made({ path: '/whatsapp' }), new Request(`http://bot${path}?${new URLSearchParams(query).toString()}`), never);
  const right = { 'hub.mode': 'subscribe', 'hub.verify_token': VERIFY, 'hub.challenge': '1158201444' };

  test('is given back to whom knows the token, as plain text', async () => {
    const answer = await asked(right);

    expect([answer.status, await answer.text()]).toEqual([200, '1158201444']);
    expect(answer.headers.get('content-type')).toBe('text/plain');
  });

  test('is not given back to anybody else', async () => {
    expect((await asked({ ...right, 'hub.verify_token': 'wrong' })).status).toBe(403);
    expect((await asked({ 'hub.mode': 'subscribe' })).status).toBe(403);
    expect((await asked({ ...right, 'hub.mode': 'unsubscribe' })).status).toBe(400);
    expect((await asked({ ...right, 'hub.challenge': 'x'.repeat(201) })).status).toBe(400);
    expect((await asked(right, '/other')).status).toBe(404);
  });
});

describe('behind a bot', () => {
  startFake();

  async function opened(provider: WhatsApp): Promise<{ bot: Bot; done: () => Promise<void> }> {
    const bot = new Bot({ provider, coordinator: new MemoryCoordinator(), log: () => {}, onError: () => {} });
    return { bot, done: () => bot.stop() };
  }

  test('a message is answered once, however often it is delivered, and a status waits for nothing', async () => {
    const statuses: Status[] = [];
    const { bot, done } = await opened(made({ apiUrl: fake.url, onStatus: (each) => void statuses.push(each) }));
    let finish: (() => void) | undefined;
    bot.use(async (ctx) => {
      await new Promise<void>((resolve) => {
        finish = resolve;
      });
      await ctx.reply(`You said ${ctx.message.text}`);
    });
    await bot.start();
    const body = bodyOf([change(OURS, { messages: [textMessage(ANA, 'hi')] })]);

    const answers = [await bot.webhook(call(body)), await bot.webhook(call(body))];
    await vi.waitFor(() => expect(finish).toBeDefined());
    const told = await bot.webhook(call(bodyOf([change(OURS, { statuses: [status('wamid.1', ANA, 'read')] })])));
    expect([told.status, statuses.map((each) => each.status), fake.sent]).toEqual([200, ['read'], []]);
    finish?.();
    await vi.waitFor(() => expect(fake.textsTo(ANA)).toEqual(['You said hi']));

    expect(await Promise.all(answers.map((answer) => answer.json()))).toEqual([
      { status: 'accepted' },
      { status: 'duplicate' },
    ]);
    await done();
    expect(fake.textsTo(ANA)).toEqual(['You said hi']);
  });

  test('a button that is pressed is what its id says, and raw has the rest, typed', async () => {
    const { bot, done } = await opened(made({ apiUrl: fake.url }));
    bot.when('yes', (ctx) => {
      const { message } = received(ctx.message) ?? {};
      const title = message?.type === 'interactive' && message.interactive.type === 'button_reply';
      return ctx.reply(`${ctx.message.kind} ${title ? message.interactive.button_reply.title : ''}`);
    });
    await bot.start();

    await bot.webhook(call(bodyOf([change(OURS, { messages: [buttonReply(ANA, 'yes', 'Yes, please')] })])));
    await vi.waitFor(() => expect(fake.textsTo(ANA)).toEqual(['callback Yes, please']));

    await done();
  });

  test('a listener that throws makes Meta deliver again, and its messages are handled once', async () => {
    let throws = true;
    const onStatus = () => {
      if (throws) throw new Error('not now');
    };
    const { bot, done } = await opened(made({ apiUrl: fake.url, onStatus }));
    bot.use((ctx) => ctx.reply(ctx.message.text));
    await bot.start();
    const messages = [textMessage(ANA, 'hi')];
    const body = bodyOf([change(OURS, { messages, statuses: [status('wamid.1', ANA, 'read')] })]);

    expect((await bot.webhook(call(body))).status).toBe(500);
    throws = false;
    expect((await bot.webhook(call(body))).status).toBe(200);
    await done();

    expect(fake.textsTo(ANA)).toEqual(['hi']);
  });

  test('of a batch that was taken in in part, the whole is delivered again, and each is handled once', async () => {
    const provider = made({ apiUrl: fake.url });
    const { bot, done } = await opened(provider);
    const handled: string[] = [];
    bot.use((ctx) => void handled.push(ctx.message.text));
    await bot.start();
    const webhook = provider.webhook?.bind(provider);
    let fails = true;
    provider.webhook = (request, intake) =>
      webhook?.(request, (message) => {
        if (fails && message.text === '2') throw new CoordinationUnavailableError('unavailable', 'down');
        return intake(message);
      }) ?? Promise.reject(new Error('no webhook'));
    const messages = ['1', '2', '3'].map((text) => textMessage(`1650555000${text}`, text));
    const body = bodyOf([change(OURS, { messages })]);

    expect((await bot.webhook(call(body))).status).toBe(503);
    fails = false;
    expect((await bot.webhook(call(body))).status).toBe(200);
    await done();

    expect(handled.toSorted()).toEqual(['1', '2', '3']);
  });
});

test('Meta’s signature is over the bytes, whatever they are', async () => {
  const body = `${bodyOf([change(OURS, { messages: [textMessage(ANA, 'é🔑')] })])}\r\n `;
  const { taken, intake } = taker();
  const request = new Request(URL_OF_BOT, { method: 'POST', body, headers: signedHeaders(SECRET, body) });

  expect(body).not.toContain('é');
  expect((await ask(made(), request, intake)).status).toBe(200);
  expect(taken[0]?.text).toBe('é🔑');
});
