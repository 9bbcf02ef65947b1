import { Bot } from '@botmesh/core';
import { DeliveryError, DeliveryUnknownError, LeaseLostError, RateLimitedError } from '@botmesh/core/spi';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { call, made, OURS, SECRET, sending, TOKEN, VERIFY } from '../testing/hook.js';
import { explain, type Sent, WhatsAppError, type WhatsAppReply } from './index.js';
import { bodyOf, change, FakeCloudApi, status, textMessage } from './testing.js';
import type { WhatsApp } from './whatsapp.js';

const ANA = '16505551234';
const CHAT = `${OURS}:${ANA}`;

let fake: FakeCloudApi;
let provider: WhatsApp;
let told: Sent[];

beforeEach(async () => {
  fake = await FakeCloudApi.start({ token: TOKEN });
  told = [];
  provider = made({ apiUrl: fake.url, timeoutMs: 300, onSent: (sent) => void told.push(sent) });
});

afterEach(() => fake[Symbol.asyncDispose]());

const send = async (reply: WhatsAppReply, chat = CHAT): Promise<void> => provider.send(chat, reply, sending());
const refusal = (reply: WhatsAppReply, chat = CHAT): Promise<unknown> =>
  send(reply, chat).then(
    () => 'sent',
    (error: unknown) => error,
  );
/** What was posted last, without what every message has. */
function posted(): Record<string, unknown> {
  const { messaging_product, recipient_type, to, biz_opaque_callback_data, ...content } = fake.sent.at(-1)?.body ?? {};
  expect([messaging_product, recipient_type, to, biz_opaque_callback_data]).toEqual([
    'whatsapp',
    'individual',
    ANA,
    'k:1:0',
  ]);
  return content;
}

describe('a reply', () => {
  const interactive = (content: object) => ({ type: 'interactive', interactive: content });
  const sections = [{ title: 'Today', rows: [{ id: '9', title: '9:00', description: 'early' }] }];

  test.each<[string, WhatsAppReply, object]>([
    ['of text', { text: 'hi' }, { type: 'text', text: { body: 'hi' } }],
    ['with a preview', { text: 'hi', previewUrl: true }, { type: 'text', text: { body: 'hi', preview_url: true } }],
    [
      'to a message',
      { text: 'hi', replyTo: 'wamid.1' },
      { context: { message_id: 'wamid.1' }, type: 'text', text: { body: 'hi' } },
    ],
    [
      'with an image by id',
      { text: 'A cat', image: { id: '7' } },
      { type: 'image', image: { id: '7', caption: 'A cat' } },
    ],
    [
      'with a document by link',
      { text: '', document: { link: 'https://x/y.pdf', filename: 'y.pdf' } },
      { type: 'document', document: { link: 'https://x/y.pdf', filename: 'y.pdf' } },
    ],
    ['with audio', { text: '', audio: { id: '8' } }, { type: 'audio', audio: { id: '8' } }],
    [
      'with buttons',
      { text: 'Sure?', buttons: [{ id: 'y', title: 'Yes' }], header: 'Order', footer: 'No. 7' },
      interactive({
        type: 'button',
        header: { type: 'text', text: 'Order' },
        body: { text: 'Sure?' },
        footer: { text: 'No. 7' },
        action: { buttons: [{ type: 'reply', reply: { id: 'y', title: 'Yes' } }] },
      }),
    ],
    [
      'with a list',
      { text: 'When?', list: { button: 'Times', sections } },
      interactive({ type: 'list', body: { text: 'When?' }, action: { button: 'Times', sections } }),
    ],
    [
      'by a template',
      { text: '', template: { name: 'ready', language: 'en_US', components: [{ type: 'body' }] } },
      { type: 'template', template: { name: 'ready', language: { code: 'en_US' }, components: [{ type: 'body' }] } },
    ],
    [
      'that is a reaction',
      { text: '', reaction: { to: 'wamid.1', emoji: '👍' } },
      { type: 'reaction', reaction: { message_id: 'wamid.1', emoji: '👍' } },
    ],
    [
      'with a place',
      { text: '', location: { latitude: 1, longitude: 2, name: 'Here' } },
      { type: 'location', location: { latitude: 1, longitude: 2, name: 'Here' } },
    ],
    [
      'with contacts',
      { text: '', contacts: [{ name: { formatted_name: 'A' } }] },
      { type: 'contacts', contacts: [{ name: { formatted_name: 'A' } }] },
    ],
    [
      'of any other kind',
      { text: '', cloud: { type: 'text', text: { body: 'x' } } },
      { type: 'text', text: { body: 'x' } },
    ],
    ['with members for others', { text: 'hi', parse_mode: 'HTML' }, { type: 'text', text: { body: 'hi' } }],
  ])('%s is posted as the Cloud API takes it', async (_what, reply, content) => {
    await send(reply);

    expect(posted()).toEqual(content);
    expect(told).toEqual([{ chat: CHAT, id: fake.sent[0]?.id, key: 'k:1:0' }]);
  });

  test.each<[string, WhatsAppReply, RegExp]>([
    ['of no text', { text: '' }, /text is empty/],
    ['of a text too long', { text: 'x'.repeat(4097) }, /text has 4097 characters, and WhatsApp takes 4096/],
    ['of two kinds', { text: '', image: { id: '1' }, video: { id: '1' } }, /image and video are in one reply/],
    ['with media of no origin', { text: '', image: {} as never }, /image needs either an id or a link/],
    ['with a captioned sticker', { text: 'hi', sticker: { id: '1' } }, /sticker has no caption/],
    ['with four buttons', { text: 'x', buttons: Array(4).fill({ id: 'a', title: 'a' }) as never }, /one to three/],
    ['with a long button', { text: 'x', buttons: [{ id: 'a', title: 'x'.repeat(21) }] }, /title of a button has 21/],
    ['with an empty list', { text: 'x', list: { button: 'b', sections: [] } }, /one to ten rows/],
    ['by a template without language', { text: '', template: { name: 'a' } as never }, /a name and a language/],
    ['of no type', { text: '', cloud: {} }, /cloud has no type/],
  ])('%s is refused by name before anything is sent', async (_what, reply, message) => {
    const error = await refusal(reply);

    expect(error).toBeInstanceOf(WhatsAppError);
    expect(error).toMatchObject({
      code: 'delivery',
      reason: 'invalid',
      message: expect.stringMatching(message) as string,
    });
    expect(fake.sent).toEqual([]);
  });

  test('an emoji counts as one character', async () => {
    await send({ text: '🔑'.repeat(2048) });

    expect(fake.textsTo(ANA)).toEqual(['🔑'.repeat(2048)]);
  });

  test('to what is no chat is refused', async () => {
    for (const chat of ['ana', '', ':1', '1:']) {
      expect(await refusal({ text: 'hi' }, chat)).toMatchObject({ code: 'delivery', reason: 'invalid' });
    }
  });

  test('goes out from the number that its chat names, with the token of that number', async () => {
    const asked: string[] = [];
    const token = (id: string): string => {
      asked.push(id);
      return TOKEN;
    };
    const several = made({ apiUrl: fake.url, token });

    await several.send(`111:${ANA}`, { text: 'a' }, sending());
    await several.send(`222:${ANA}`, { text: 'b' }, sending());

    expect(asked).toEqual(['111', '222']);
    expect(fake.sent.map(({ phoneNumberId }) => phoneNumberId)).toEqual(['111', '222']);
    expect([`111:${ANA}`, `222:${ANA}`].map((chat) => several.accountOf?.(chat))).toEqual(['111', '222']);
  });
});

describe('what the Cloud API refuses', () => {
  test.each([
    [131047, 'window-closed', /24-hour window is closed: send a template/],
    [470, 'window-closed', /24-hour window/],
    [131026, 'unreachable', /cannot receive/],
    [131050, 'declined', /wants no such/],
    [132001, 'template', /template/],
    [190, 'token', /token/],
    [200, 'token', /token/],
    [131048, 'restricted', /restricts/],
    [133010, 'number', /not registered/],
    [100, 'invalid', /field/],
    [987654, 'other', /error codes/],
  ])('code %i is %s, and not sent again', async (code, reason, words) => {
    fake.fail({ code, httpStatus: 400 });

    const error = await refusal({ text: 'hi' });

    expect(error).toBeInstanceOf(WhatsAppError);
    expect(error).toMatchObject({ code: 'delivery', reason, cloudCode: code, retryAfterMs: undefined });
    expect((error as Error).message).toMatch(words);
    expect((error as Error).message).toMatch(new RegExp(`code ${code}, HTTP 400, fbtrace_id \\S+\\)`));
  });

  test.each([
    [130429, 'account', 1_000],
    [80007, 'account', 60_000],
    [4, 'account', 60_000],
    [131056, 'chat', 6_000],
  ])('code %i asks for a pause of the %s', async (code, scope, retryAfterMs) => {
    fake.fail({ code });

    const error = await refusal({ text: 'hi' });

    expect(error).toBeInstanceOf(RateLimitedError);
    expect(error).toMatchObject({ scope, retryAfterMs, cause: { cloudCode: code } });
  });

  test('a pause is as long as the API says, in seconds or in the minutes of the account’s use', async () => {
    const usage = { '102290129340398': [{ type: 'messages', estimated_time_to_regain_access: 2 }] };
    fake.fail({ code: 130429, retryAfterSeconds: 7 });
    fake.fail({ code: 80007, headers: { 'x-business-use-case-usage': JSON.stringify(usage) } });
    fake.fail({ code: 80007, headers: { 'x-business-use-case-usage': 'no JSON' } });

    const pauses = [await refusal({ text: '1' }), await refusal({ text: '2' }), await refusal({ text: '3' })];

    expect(pauses.map((error) => (error as RateLimitedError).retryAfterMs)).toEqual([7_000, 120_000, 60_000]);
  });

  test.each([2, 131000, 131016])('code %i is a fault at Meta: the same reply is sent again', async (code) => {
    fake.fail({ code });

    expect(await refusal({ text: 'hi' })).toMatchObject({ code: 'delivery', reason: 'temporary', retryAfterMs: 2_000 });
  });

  test('the same words explain the errors of a status', () => {
    expect(explain(131047)).toEqual({ code: 131047, reason: 'window-closed', isPassing: false });
    expect(explain(131056)).toEqual({ code: 131056, reason: 'pair-rate-limited', isPassing: true });
  });
});

describe('whether a reply was sent is', () => {
  test.each([
    ['silence', 'no answer in 300 ms'],
    ['cut', 'broke off'],
    ['proxy', 'HTTP 502'],
  ] as const)('unknown after %s', async (instead, words) => {
    for (const isSent of [true, false]) {
      fake.fail({ instead, isSent });
      const error = await refusal({ text: 'hi' });

      expect(error).toBeInstanceOf(DeliveryUnknownError);
      expect(error).toMatchObject({ code: 'delivery-unknown', message: expect.stringContaining(words) as string });
    }
    expect(fake.sent).toHaveLength(1);
  });

  test('known where nobody listens: it was not', async () => {
    await fake[Symbol.asyncDispose]();

    expect(await refusal({ text: 'hi' })).toMatchObject({ code: 'delivery', reason: 'temporary', retryAfterMs: 2_000 });
    fake = await FakeCloudApi.start();
  });

  test('known when its turn was lost before: nothing leaves', async () => {
    const lost = new LeaseLostError('expired');

    await expect(provider.send(CHAT, { text: 'hi' }, sending('k', AbortSignal.abort(lost)))).rejects.toBe(lost);
    expect(fake.sent).toEqual([]);
  });

  test('unknown when its turn is lost meanwhile, and it is not waited for', async () => {
    const turn = new AbortController();
    fake.fail({ instead: 'silence', isSent: true });
    const slow = made({ apiUrl: fake.url, timeoutMs: 20_000 });
    const sent = slow.send(CHAT, { text: 'hi' }, sending('k', turn.signal));
    const ended = expect(sent).rejects.toBeInstanceOf(DeliveryUnknownError);
    await vi.waitFor(() => expect(fake.sent).toHaveLength(1));

    turn.abort(new LeaseLostError('expired'));

    await ended;
  });
});

describe('besides replies', () => {
  test('a message is marked as read, and somebody is seen typing', async () => {
    await provider.markRead(CHAT, 'wamid.1');
    await provider.markRead(CHAT, 'wamid.2', { isTyping: true });

    expect(fake.read).toEqual([
      { id: 'wamid.1', isTyping: false },
      { id: 'wamid.2', isTyping: true },
    ]);
  });

  test('media is uploaded, sent by its id, and downloaded', async () => {
    const data = new TextEncoder().encode('a picture');

    const id = await provider.upload(CHAT, data, { type: 'image/png', filename: 'a.png' });
    await send({ text: 'look', image: { id } });
    const found = await provider.download(CHAT, id);

    expect(posted()).toEqual({ type: 'image', image: { id, caption: 'look' } });
    expect([new TextDecoder().decode(found.data), found.mimeType]).toEqual(['a picture', 'image/png']);
  });

  test('media that is too long or not there is refused', async () => {
    const id = fake.addMedia(new Uint8Array(1000), 'image/png');

    await expect(provider.download(CHAT, id, { maxBytes: 999 })).rejects.toMatchObject({ reason: 'media' });
    await expect(provider.download(CHAT, '404')).rejects.toMatchObject({ reason: 'invalid', cloudCode: 100 });
    expect((await provider.download(CHAT, id, { maxBytes: 1000 })).data).toHaveLength(1000);
  });

  test('the token goes to no host but Meta’s, whatever the API says', async () => {
    const { url } = fake;
    const answer = new Response(JSON.stringify({ url: 'https://evil.example/file', mime_type: 'image/png' }));
    const asked = vi.spyOn(globalThis, 'fetch').mockResolvedValueOnce(answer);

    try {
      await expect(made({ apiUrl: url }).download(CHAT, '7')).rejects.toMatchObject({ reason: 'media' });
      expect(asked).toHaveBeenCalledTimes(1);
    } finally {
      asked.mockRestore();
    }
  });
});

test('no error says a token, a secret, a number or a text', async () => {
  const text = 'a text that nobody may see';
  const planted = [TOKEN, SECRET, VERIFY, ANA, OURS, text];
  const errors: unknown[] = [];
  for (const code of [0, 2, 100, 190, 130429, 131026, 131047, 131056, 132000, 555]) {
    fake.fail({ code });
    errors.push(await refusal({ text }));
  }
  for (const instead of ['silence', 'cut', 'proxy'] as const) {
    fake.fail({ instead });
    errors.push(await refusal({ text }));
  }
  errors.push(await refusal({ text, image: { id: text }, video: { id: text } }));
  errors.push(await refusal({ text: text.repeat(1000) }));
  errors.push(await refusal({ text }, `${text}`));
  await fake[Symbol.asyncDispose]();
  errors.push(await refusal({ text }));
  fake = await FakeCloudApi.start();

  expect(errors).toHaveLength(17);
  for (const error of errors) {
    expect(error).toBeInstanceOf(Error);
    expect(planted.filter((each) => everythingIn(error as Error).includes(each))).toEqual([]);
  }
  expect(errors.filter((error) => error instanceof DeliveryError).length).toBeGreaterThan(8);
});

test('no line that a bot logs says a token, a secret or a text', async () => {
  const text = 'a text that nobody may see';
  const lines: string[] = [];
  const hooked = made({
    apiUrl: fake.url,
    timeoutMs: 100,
    onStatus: () => {
      throw new Error('a listener that fails');
    },
  });
  const bot = new Bot({ provider: hooked, log: (line) => void lines.push(line), retryDelayMs: 1, maxAttempts: 2 });
  bot.use((ctx) => ctx.reply(ctx.message.text));
  await bot.start();
  fake.fail({ code: 131026, times: 2 });
  fake.fail({ instead: 'cut', times: 2 });
  const bodies = ['16505551234', '447700900000'].map((from) =>
    bodyOf([change(OURS, { messages: [textMessage(from, text)] })]),
  );

  for (const body of bodies) expect((await bot.webhook(call(body))).status).toBe(200);
  expect((await bot.webhook(call(bodies[0]!, 'wrong'))).status).toBe(401);
  expect((await bot.webhook(call(bodies[0]!.slice(0, -3)))).status).toBe(400);
  const told = bodyOf([change(OURS, { statuses: [status('wamid.1', ANA, 'read', { text })] })]);
  expect((await bot.webhook(call(told))).status).toBe(500);
  await bot.stop();

  expect(lines.length).toBeGreaterThanOrEqual(5);
  for (const line of lines) expect([TOKEN, SECRET, VERIFY, text].filter((each) => line.includes(each))).toEqual([]);
});

function everythingIn(error: Error): string {
  const own = Object.getOwnPropertyNames(error).map((name) => String(Reflect.get(error, name)));
  return `${own.join(' ')} ${error.cause instanceof Error ? everythingIn(error.cause) : String(error.cause)}`;
}
