// What anybody on the way may send, what Slack sends beside messages, and what a bot must not hear.
import { once } from 'node:events';
import { createServer } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { Bot } from '@botmesh/core';
import { type IncomingMessage, nodeListener } from '@botmesh/core/spi';
import { afterEach, describe, expect, test } from 'vitest';
import type { Body } from './arrival.js';
import { messageOf } from './parse.js';
import { slack } from './slack.js';
import { APP, BOT_USER, callbackOf } from './testing/payloads.js';
import { signRequest } from './testing/sign-request.js';
import { refuseBody, refuseHeaders } from './verify.js';

const SECRET = 'signing-secret';
const FORM = { 'content-type': 'application/x-www-form-urlencoded' };

const ends: (() => unknown)[] = [];

afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end();
});

function eventOf(event: Readonly<Record<string, unknown>>): Body {
  return callbackOf({ type: 'message', channel: 'C1', user: 'U1', ts: '1.1', ...event }, { eventId: 'Ev1', ts: '1.1' });
}

function call(body: string | Uint8Array<ArrayBuffer>, headers: Record<string, string> = {}): Request {
  const signed = signRequest(SECRET, Buffer.from(body as string), Date.now());
  const all = { 'content-type': 'application/json', ...signed, ...headers };
  return new Request('http://127.0.0.1/', { method: 'POST', body, headers: all });
}

async function started(): Promise<{ bot: Bot; heard: IncomingMessage[]; errors: unknown[] }> {
  const provider = slack({ token: 'xoxb-fake', signingSecret: SECRET });
  const bot = new Bot({ provider: { ...provider, send() {} }, log: () => {} });
  const [heard, errors]: [IncomingMessage[], unknown[]] = [[], []];
  bot.onError((error) => errors.push(error));
  bot.use((ctx) => {
    heard.push(ctx.message as IncomingMessage);
  });
  await bot.start();
  ends.push(() => bot.stop());
  return { bot, heard, errors };
}

describe('a signature', () => {
  const NOW_MS = 1_700_000_000_000;
  const refusal = (atMs: number): string | undefined => {
    const headers = new Headers(signRequest(SECRET, 'body', atMs));
    return refuseHeaders(headers) ?? refuseBody([SECRET], () => NOW_MS)(headers, Buffer.from('body'));
  };

  test('is good for five minutes either way, and not a second longer', () => {
    expect([-300_000, -299_000, 0, 299_000, 300_000].map((off) => refusal(NOW_MS + off))).toEqual(
      Array(5).fill(undefined),
    );
    for (const off of [-301_000, 301_000]) expect(refusal(NOW_MS + off)).toContain('more than five minutes off');
  });

  test.each([
    [
      '',
      'v0=',
      `v0=${'0'.repeat(63)}`,
      `v0=${'0'.repeat(65)}`,
      `v1=${'0'.repeat(64)}`,
      'V0=g',
      `v0=${'0'.repeat(64)}, v0=x`,
    ],
  ])('of another length or version is refused by its form', (...signatures) => {
    for (const signature of signatures) {
      const headers = new Headers({ 'x-slack-request-timestamp': '1', 'x-slack-signature': signature });
      expect(refuseHeaders(headers), signature).toContain('missing or malformed');
    }
    for (const time of ['', '-1', '1e9', '1.5', '9'.repeat(13), 'NaN']) {
      const headers = new Headers({ 'x-slack-request-timestamp': time, 'x-slack-signature': `v0=${'0'.repeat(64)}` });
      expect(refuseHeaders(headers), time).toContain('missing or malformed');
    }
  });

  test('that is wrong keeps the challenge back, and HEAD and GET get nothing', async () => {
    const { bot } = await started();
    const body = JSON.stringify({ type: 'url_verification', challenge: 'abc' });

    const forged = await bot.webhook(call(body, signRequest('wrong', body, Date.now())));
    expect([forged.status, await forged.text()]).toEqual([401, expect.not.stringContaining('abc')]);
    for (const method of ['GET', 'HEAD', 'PUT', 'OPTIONS']) {
      expect((await bot.webhook(new Request('http://127.0.0.1/', { method }))).status).toBe(405);
    }
  });
});

describe('a body', () => {
  test('nested too deep, in any place and form, is answered 400', async () => {
    const { bot, errors } = await started();
    const deep = `${'['.repeat(100_000)}${']'.repeat(100_000)}`;
    const bodies: [string, Record<string, string>?][] = [
      [`{"type":"event_callback","event":{"type":"odd","deep":${deep}}}`],
      [
        `{"type":"event_callback","event_id":"Ev1","event":{"type":"message","channel":"C1","ts":"1.1","deep":${deep}}}`,
      ],
      [new URLSearchParams({ payload: `{"type":"block_actions","actions":${deep}}` }).toString(), FORM],
    ];

    for (const [body, headers] of bodies) expect((await bot.webhook(call(body, headers))).status).toBe(400);
    expect(errors).toEqual([]);
  });

  test('of bytes that are no UTF-8 is answered 400, as JSON and as a form', async () => {
    const { bot } = await started();
    const bad = (text: string): Uint8Array<ArrayBuffer> => Uint8Array.from([...Buffer.from(text), 0xff, 0x22, 0x7d]);

    expect((await bot.webhook(call(bad('{"type":"event_callback","a":"')))).status).toBe(400);
    expect((await bot.webhook(call(bad('command=%2Fgo&text='), FORM))).status).toBe(400);
  });

  test('with a key twice is what JSON says it is: the last one counts, and its id is that of one message', async () => {
    const { bot, heard } = await started();
    const twice = JSON.stringify(eventOf({ text: 'first' })).replace(
      '"text":"first"',
      '"text":"first","text":"second"',
    );

    expect((await bot.webhook(call(twice))).status).toBe(200);
    await bot.stop();

    expect(heard.map(({ text, id }) => [text, id])).toEqual([['second', 'message::C1:1.1']]);
  });

  test('that comes slowly keeps nobody waiting, and one that breaks off does no harm', async () => {
    const { bot, heard, errors } = await started();
    const server = createServer(nodeListener(bot)).listen(0, '127.0.0.1');
    await once(server, 'listening');
    ends.push(() => new Promise((resolve) => server.close(resolve)));
    ends.push(() => server.closeAllConnections());
    const { port } = server.address() as AddressInfo;
    const body = JSON.stringify(eventOf({ text: 'slow' }));
    const signed = Object.entries(signRequest(SECRET, body, Date.now())).map(
      ([name, value]) => `${name}: ${value}\r\n`,
    );
    const slow = connect(port, '127.0.0.1');
    slow.write(`POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n${signed.join('')}\r\n`);
    const halves = [body.slice(0, 100), body.slice(100)];
    const chunk = (text: string): string => `${text.length.toString(16)}\r\n${text}\r\n`;
    slow.write(chunk(halves[0]!));
    const broken = connect(port, '127.0.0.1');
    broken.write(`POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 5000\r\n${signed.join('')}\r\n{`, () =>
      broken.destroy(),
    );

    const quick = JSON.stringify(eventOf({ text: 'quick', ts: '2.2' }));
    const headers = { 'content-type': 'application/json', ...signRequest(SECRET, quick, Date.now()) };
    const answer = await fetch(`http://127.0.0.1:${port}/`, { method: 'POST', body: quick, headers });
    slow.write(`${chunk(halves[1]!)}0\r\n\r\n`);
    const [told] = (await once(slow, 'data')) as [Buffer];
    slow.destroy();
    await bot.stop();

    expect(answer.status).toBe(200);
    expect(String(told)).toMatch(/^HTTP\/1.1 200/);
    expect(heard.map(({ text }) => text)).toEqual(['quick', 'slow']);
    expect(errors).toEqual([]);
  });
});

describe('what a bot does itself', () => {
  const own = { user: BOT_USER, bot_id: 'B1' };
  test.each<[string, Record<string, unknown>]>([
    ['writes', own],
    [
      'writes under a name that it chose, so that it has no user',
      { user: undefined, bot_id: 'B1', subtype: 'bot_message', app_id: APP },
    ],
    ['writes, and Slack names the app in its profile', { user: undefined, bot_id: 'B1', bot_profile: { app_id: APP } }],
    ['changes', { subtype: 'message_changed', user: undefined, message: { ...own, ts: '1.0', text: 'new' } }],
    ['deletes', { subtype: 'message_deleted', user: undefined, previous_message: { ...own, ts: '1.0' } }],
    [
      'puts an emoji under',
      { type: 'reaction_added', user: BOT_USER, item: { channel: 'C1', ts: '1.0' }, reaction: 'eyes' },
    ],
  ])('is no message of its own: what it %s', (_what, event) => {
    expect(messageOf(eventOf(event))).toBeUndefined();
  });

  test('but that it has come into a channel is one, and so is what another bot writes, by a kind of its own', () => {
    const other = { user: 'U2', bot_id: 'B2', app_id: 'A2', text: 'beep' };

    expect(messageOf(eventOf({ type: 'member_joined_channel', user: BOT_USER }))).toMatchObject({ kind: 'join' });
    expect(messageOf(eventOf(other))).toMatchObject({ kind: 'bot_message', text: 'beep' });
    expect(messageOf(eventOf({ ...other, subtype: 'bot_message' }))).toMatchObject({ kind: 'bot_message' });
  });
});

describe('what somebody writes', () => {
  test('is a message also with a file, from a thread to its channel, or by /me; its mention is the same message', () => {
    for (const subtype of [undefined, 'file_share', 'thread_broadcast', 'me_message']) {
      const text = `<@${BOT_USER}>: hi <@${BOT_USER}>`;
      const both = [eventOf({ subtype, text }), eventOf({ type: 'app_mention', text })].map(messageOf);

      expect(both[0]).toMatchObject({ kind: 'mention', text: `hi <@${BOT_USER}>` });
      expect([both[1]?.id, both[1]?.kind, both[1]?.text]).toEqual([both[0]?.id, both[0]?.kind, both[0]?.text]);
      expect(messageOf(eventOf({ subtype, text: 'hi' }))).toMatchObject({ kind: 'message', text: 'hi' });
    }
    expect(messageOf(eventOf({ text: `you, <@${BOT_USER}>` }))).toMatchObject({
      kind: 'mention',
      text: `you, <@${BOT_USER}>`,
    });
  });

  test('is edited and deleted under ids of their own, in the thread of the message', () => {
    const message = { user: 'U1', ts: '1.1', thread_ts: '1.0', text: 'new' };
    const found = [
      eventOf({ text: 'old', thread_ts: '1.0' }),
      eventOf({ subtype: 'message_changed', user: undefined, ts: '2.0', event_ts: '2.0', message }),
      eventOf({ subtype: 'message_deleted', user: undefined, ts: '3.0', event_ts: '3.0', previous_message: message }),
    ].map(messageOf);

    expect(found.map((each) => [each?.kind, each?.chat])).toEqual([
      ['message', 'C1:1.0'],
      ['edit', 'C1:1.0'],
      ['delete', 'C1:1.0'],
    ]);
    expect(new Set(found.map((each) => each?.id)).size).toBe(3);
  });

  test('in a grid, in a shared channel, and without a channel is somebody’s', () => {
    const shared = {
      ...eventOf({ user: 'W1', user_team: 'T2', source_team: 'T2' }),
      is_ext_shared_channel: true,
      team_id: 'T2',
    };
    const grid = {
      ...shared,
      enterprise_id: 'E1',
      context_enterprise_id: 'E1',
      authorizations: [{ is_enterprise_install: true }],
    };

    const forPerson = { ...eventOf({ user: 'U1' }), authorizations: [{ user_id: 'U1', is_bot: false }] };

    expect(messageOf(forPerson)).toMatchObject({ chat: 'C1:1.1', from: 'U1', kind: 'message' });
    expect(messageOf(shared)).toMatchObject({ chat: 'C1:1.1', from: 'W1' });
    expect(messageOf(grid)).toMatchObject({ chat: 'C1:1.1', from: 'W1' });
    expect(messageOf({ ...eventOf({}), authorizations: undefined })).toMatchObject({ chat: 'C1:1.1', from: 'U1' });
    expect(
      messageOf(callbackOf({ type: 'team_join', user: { id: 'W9' } }, { eventId: 'Ev1', ts: '1.1' })),
    ).toMatchObject({
      chat: 'user:W9',
      kind: 'unknown',
    });
  });

  test.each(['app_uninstalled', 'tokens_revoked', 'channel_id_changed', 'event_of_the_future'])(
    '%s is unknown, with all of it',
    (type) => {
      const body = callbackOf({ type, tokens: { bot: ['U1'] }, channel: undefined }, { eventId: 'Ev1', ts: '1.1' });

      expect(messageOf(body)).toMatchObject({ chat: 'team:T00FAKE', id: 'Ev1', kind: 'unknown', raw: body });
    },
  );
});

test('a button that only one person sees belongs to its channel, as nobody can reply under it; in a thread to the thread', () => {
  const press = (container: object): Body => ({
    type: 'block_actions',
    user: { id: 'U1' },
    trigger_id: '1',
    channel: { id: 'C1' },
    container: { type: 'message', message_ts: '5.0', channel_id: 'C1', ...container },
    actions: [{ action_id: 'a', value: 'v' }],
  });

  expect(messageOf(press({}))?.chat).toBe('C1:5.0');
  expect(messageOf(press({ is_ephemeral: true }))?.chat).toBe('C1');
  expect(messageOf(press({ is_ephemeral: true, thread_ts: '4.0' }))?.chat).toBe('C1:4.0');
});
