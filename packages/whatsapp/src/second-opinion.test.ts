// Another client of the Cloud API, which nobody here wrote, against our fake and our provider.
import { Bot } from '@botmesh/core';
import { MemoryCoordinator } from '@botmesh/core/testing';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { WhatsAppAPI } from 'whatsapp-api-js';
import {
  ActionButtons,
  Body,
  Button,
  Image,
  Interactive,
  Language,
  Reaction,
  Template,
  Text,
} from 'whatsapp-api-js/messages';
import type { PostData } from 'whatsapp-api-js/types';
import { ask, call, made, never, OURS, SECRET, sending, TOKEN, VERIFY } from '../testing/hook.js';
import { recorded } from '../testing/recorded.js';
import { type Status, whatsapp } from './index.js';
import { bodyOf, change, FakeCloudApi, signedHeaders, status, textMessage } from './testing.js';

const ANA = '16505551234';

/** The other client, whose calls go to our fake. */
function client(fake: FakeCloudApi, token = TOKEN): WhatsAppAPI {
  return new WhatsAppAPI({
    token,
    appSecret: SECRET,
    webhookVerifyToken: VERIFY,
    v: 'v24.0',
    ponyfill: {
      fetch: ((url: string | URL, init?: RequestInit) =>
        fetch(String(url).replace('https://graph.facebook.com', fake.url), init)) as typeof fetch,
    },
  });
}

let fake: FakeCloudApi;
beforeEach(async () => {
  fake = await FakeCloudApi.start({ token: TOKEN, appSecret: SECRET });
});
afterEach(() => fake[Symbol.asyncDispose]());

describe('its client at our fake', () => {
  test('sends, and gets the ids that went out', async () => {
    const other = client(fake);

    const sent = [
      await other.sendMessage(OURS, ANA, new Text('hi')),
      await other.sendMessage(OURS, ANA, new Image('7', true, 'A cat'), 'wamid.1'),
      await other.sendMessage(OURS, ANA, new Template('ready', new Language('en_US'))),
      await other.sendMessage(OURS, ANA, new Reaction('wamid.1', '👍')),
      await other.sendMessage(OURS, ANA, new Interactive(new ActionButtons(new Button('y', 'Yes')), new Body('Sure?'))),
    ];

    const ids = sent.map((answer) => ('messages' in answer ? answer.messages[0].id : 'none'));
    expect(ids).toEqual(fake.sent.map(({ id }) => id));
    expect(fake.sent).toHaveLength(5);
  });

  test('posts what our provider posts', async () => {
    const ours = made({ apiUrl: fake.url });
    const chat = `${OURS}:${ANA}`;

    await client(fake).sendMessage(OURS, ANA, new Text('hi', true), 'wamid.1', 'k');
    await ours.send(chat, { text: 'hi', previewUrl: true, replyTo: 'wamid.1' }, sending('k'));
    await client(fake).sendMessage(
      OURS,
      ANA,
      new Interactive(new ActionButtons(new Button('y', 'Yes')), new Body('Sure?')),
      undefined,
      'k',
    );
    await ours.send(chat, { text: 'Sure?', buttons: [{ id: 'y', title: 'Yes' }] }, sending('k'));
    await client(fake).sendMessage(OURS, ANA, new Template('ready', new Language('en_US')), undefined, 'k');
    await ours.send(chat, { text: '', template: { name: 'ready', language: 'en_US' } }, sending('k'));
    await client(fake).sendMessage(OURS, { bsuid: 'US.13' }, new Text('hi'), undefined, 'k');
    await ours.send(`${OURS}:US.13`, { text: 'hi' }, sending('k'));

    const bodies = fake.sent.map(({ body }) => withoutDefaults(body));
    for (let at = 0; at < bodies.length; at += 2) expect(bodies[at + 1]).toEqual(bodies[at]);
    expect(bodies).toHaveLength(8);
  });

  test('reads our refusals, and marks as read', async () => {
    fake.fail({ code: 131047 });
    const other = client(fake);

    expect(await other.sendMessage(OURS, ANA, new Text('hi'))).toMatchObject({ error: { code: 131047 } });
    expect(await client(fake, 'wrong').sendMessage(OURS, ANA, new Text('hi'))).toMatchObject({
      error: { code: 190 },
    });
    expect(await other.markAsRead(OURS, 'wamid.1', 'text')).toEqual({ success: true });
    expect(fake.read).toEqual([{ id: 'wamid.1', isTyping: true }]);
  });

  test('uploads media, finds it, fetches it and deletes it', async () => {
    const other = client(fake);
    const form = new FormData();
    form.set('file', new Blob(['a picture'], { type: 'image/png' }), 'a.png');
    form.set('messaging_product', 'whatsapp');

    const { id } = (await other.uploadMedia(OURS, form)) as { id: string };
    const about = (await other.retrieveMedia(id)) as unknown as { url: string; mime_type: string };
    const file = (await other.fetchMedia(about.url)) as Response;

    expect([about.mime_type, await file.text()]).toEqual(['image/png', 'a picture']);
    expect(await made({ apiUrl: fake.url }).download(`${OURS}:${ANA}`, id)).toMatchObject({ mimeType: 'image/png' });
    expect(await other.deleteMedia(id)).toEqual({ success: true });
  });
});

/** Without members that say what holds without them. */
function withoutDefaults(body: Readonly<Record<string, unknown>>): unknown {
  const isDefault = (name: string, value: unknown): boolean =>
    (name === 'preview_url' && value === false) || (name === 'policy' && value === 'deterministic');
  return JSON.parse(JSON.stringify(body), (name, value: unknown) => (isDefault(name, value) ? undefined : value));
}

describe('signatures', () => {
  const texts = ['hi', 'é🔑 <b>&amp;</b> ‮', '\u0000\u007f', 'x'.repeat(10_000)];

  test.each(texts)('of our fake are good for its client: %#', async (text) => {
    const body = bodyOf([change(OURS, { messages: [textMessage(ANA, text)] })]);
    const signature = signedHeaders(SECRET, body)['x-hub-signature-256']!;

    expect(await client(fake).verifyRequestSignature(body, signature)).toBe(true);
    expect(await client(fake).verifyRequestSignature(body, signature.replace(/.$/, '!'))).toBe(false);
  });

  test('what its client takes for Meta’s, our provider does, and the reverse', async () => {
    const other = client(fake);
    for (const { body } of recorded()) {
      const text = bodyOf().replace('"entry":[]', `"entry":${ascii(JSON.stringify(body.entry))}`);
      for (const secret of [SECRET, 'wrong']) {
        const ours = await ask(made(), call(text, secret), async () => 'accepted');
        const theirs = await other.verifyRequestSignature(text, signedHeaders(secret, text)['x-hub-signature-256']!);

        expect([ours.status, theirs]).toEqual(secret === SECRET ? [200, true] : [401, false]);
      }
    }
  });

  test('its handlers hear from our fake’s bodies what our provider does', async () => {
    const other = client(fake);
    const heard: unknown[] = [];
    other.on.message = ({ phoneID, from, message }) => {
      heard.push([phoneID, from, message.id, message.type === 'text' ? message.text.body : '']);
    };
    other.on.status = ({ phoneID, phone, id, status: what }) => {
      heard.push([phoneID, phone, id, what]);
    };
    const statuses: Status[] = [];
    const provider = made({ onStatus: (each) => void statuses.push(each) });
    const found: unknown[] = [];
    const bodies = [
      bodyOf([change(OURS, { messages: [textMessage(ANA, 'é🔑', { id: 'wamid.1' })] })]),
      bodyOf([change(OURS, { statuses: [status('wamid.2', ANA, 'read')] })]),
    ];

    for (const body of bodies) {
      await other.post(JSON.parse(body) as PostData, body, signedHeaders(SECRET, body)['x-hub-signature-256']!);
      await ask(provider, call(body), async ({ chat, id, text }) => {
        found.push([...chat.split(':'), id, text]);
        return 'accepted';
      });
    }

    expect([...found, ...statuses.map(({ chat, id, status: what }) => [...chat.split(':'), id, what])]).toEqual(heard);
  });

  test('the challenge is answered alike', async () => {
    const query = { 'hub.mode': 'subscribe', 'hub.verify_token': VERIFY, 'hub.challenge': '42' } as const;
    const request = new Request(`http://bot/?${new URLSearchParams(query).toString()}`);

    expect(await (await ask(made(), request, never)).text()).toBe(client(fake).get(query));
  });
});

test('a bot of ours and its client write to each other through the fake', async () => {
  const provider = whatsapp({ token: TOKEN, appSecret: SECRET, verifyToken: VERIFY, apiUrl: fake.url });
  const bot = new Bot({ provider, coordinator: new MemoryCoordinator(), log: () => {} });
  bot.use((ctx) => ctx.reply({ text: `You said ${ctx.message.text}`, replyTo: ctx.message.id }));
  await bot.start();

  const answer = await bot.webhook(
    call(bodyOf([change(OURS, { messages: [textMessage(ANA, 'hi', { id: 'wamid.1' })] })])),
  );
  await vi.waitFor(() => expect(fake.textsTo(ANA)).toEqual(['You said hi']));

  expect([answer.status, fake.sent[0]?.body.context]).toEqual([200, { message_id: 'wamid.1' }]);
  await bot.stop();
});

function ascii(text: string): string {
  return text.replace(/[\u007f-\uffff]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`);
}
