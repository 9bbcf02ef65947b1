import { readdirSync, readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { inspect } from 'node:util';
import { ConfigError } from '@botmesh/core';
import { type Intake, nodeListener } from '@botmesh/core/spi';
import { providerConformance } from '@botmesh/core/testing';
import { afterEach, describe, expect, test } from 'vitest';
import type { Body } from './arrival.js';
import { chatName, slack } from './index.js';
import { messageOf } from './parse.js';
import { FakeSlack } from './testing/FakeSlack.js';
import { callbackOf } from './testing/payloads.js';
import { signRequest } from './testing/sign-request.js';

const ends: (() => unknown)[] = [];

afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end();
});

const SECRET = 'signing-secret';
const ADDRESS = 'http://127.0.0.1/slack/events';

function post(body: string | Uint8Array<ArrayBuffer>, headers: Record<string, string> = {}): Request {
  const signature = signRequest(SECRET, Buffer.from(body as string), Date.now());
  const all = { 'content-type': 'application/json', ...signature, ...headers };
  return new Request(ADDRESS, { method: 'POST', body, headers: all });
}

/** What Slack posts for a message: its id is its time, in microseconds. */
function wrapped({ id, chat, text }: { id: string; chat: string; text: string }): Body {
  const event = { type: 'message', channel: chat, channel_type: 'im', user: 'U1', ts: id, event_ts: id, text };
  return callbackOf(event, { eventId: `Ev${id}`, ts: '1.0' });
}

const PLANTED = 'xoxb-planted-token';

for (const { title, run, skip } of providerConformance({
  name: 'slack',
  naming: { id: (name) => `message::ana:${name}` },
  secrets: [PLANTED, SECRET],
  webhook: {
    maxBytes: 10_000,
    body: ([message]) => JSON.stringify(wrapped(message!)),
    call: (body) => post(body),
    forge: (body) => post(body, signRequest('wrong', Buffer.from(body), Date.now())),
    events: [
      JSON.stringify({ type: 'url_verification', challenge: 'abc' }),
      JSON.stringify({ type: 'block_suggestion', action_id: 'menu', value: 'a', user: { id: 'U1' } }),
      JSON.stringify(
        callbackOf({ type: 'message', user: 'U00FAKEBOT', channel: 'C1', ts: '1.1' }, { eventId: 'Ev1', ts: '1.0' }),
      ),
    ],
  },
  open: async () => {
    const fake = await FakeSlack.start();
    const provider = slack({ token: PLANTED, signingSecret: SECRET, apiUrl: fake.apiUrl, maxBytes: 10_000 });
    let intake: Intake | undefined;
    return {
      provider: {
        ...provider,
        start: (take: Intake) => {
          intake = take;
        },
      },
      deliver: async (message) =>
        (await provider.webhook!(post(JSON.stringify(wrapped(message))), intake!)).status === 200,
      sent: () => fake.calls.filter(({ method }) => method === 'chat.postMessage').map(sentBy),
      refuseNextSend: () => fake.refuse('chat.postMessage', 'channel_not_found'),
      close: () => fake.close(),
    };
  },
})) {
  test.skipIf(skip !== undefined)(`slack: ${title}${skip === undefined ? '' : ` (skipped: ${skip})`}`, run);
}

function sentBy({ args }: { args: Record<string, unknown> }): { chat: string; text: string } {
  return { chat: String(args.channel as string), text: String(args.text as string) };
}

describe('slack()', () => {
  const provider = slack({
    token: 'xoxb-fake',
    signingSecret: [SECRET, 'the next one'],
    path: '/slack/events',
    maxBytes: 2_000,
  });
  const taking: Intake = async () => 'accepted';
  const statusOf = async (request: Request, intake = taking): Promise<number> =>
    (await provider.webhook!(request, intake)).status;

  test('answers 401 to a wrong or missing signature and a time out of the window, without a look at the body', async () => {
    const body = JSON.stringify(wrapped({ id: '1.1', chat: 'D1', text: 'hi' }));
    const reached: unknown[] = [];
    const intake: Intake = async (message) => {
      reached.push(message);
      return 'accepted';
    };

    expect(await statusOf(post(body, signRequest('wrong', body, Date.now())), intake)).toBe(401);
    expect(await statusOf(post(body, signRequest(SECRET, body, Date.now() - 301_000)), intake)).toBe(401);
    expect(await statusOf(post(body, signRequest(SECRET, body, Date.now() + 302_000)), intake)).toBe(401);
    expect(await statusOf(post(body, { 'x-slack-signature': 'v0=short' }), intake)).toBe(401);
    expect(await statusOf(post(body, signRequest('the next one', body, Date.now())), intake)).toBe(200);
    expect(reached).toHaveLength(1);
  });

  test('answers 413, 400, 404 and 405, and never throws on a truncated body', async () => {
    const whole = JSON.stringify(wrapped({ id: '1.1', chat: 'D1', text: 'hi' }));

    expect(await statusOf(post(`"${'x'.repeat(2_000)}"`))).toBe(413);
    expect(await statusOf(new Request('http://127.0.0.1/else', { method: 'POST' }))).toBe(404);
    expect(await statusOf(new Request(ADDRESS))).toBe(405);
    for (const wrong of ['null', '3', '[]', '"text"']) expect(await statusOf(post(wrong))).toBe(400);
    for (let length = 0; length < whole.length; length += 7) {
      expect(await statusOf(post(whole.slice(0, length)))).toBe(400);
    }
  });

  test('answers the challenge by which Slack knows an address', async () => {
    const found = await provider.webhook!(post('{"type":"url_verification","challenge":"abc"}'), taking);

    expect(await found.json()).toEqual({ challenge: 'abc' });
  });

  test('refuses options that cannot work', () => {
    expect(() => slack({ token: '', signingSecret: SECRET })).toThrow(ConfigError);
    expect(() => slack({ token: 'xoxb-fake', signingSecret: [] })).toThrow(ConfigError);
    expect(() => slack({ token: 'xoxb-fake' })).toThrow('or appToken for Socket Mode');
    expect(() => slack({ token: 'xoxb-fake', appToken: 'xapp-fake', signingSecret: SECRET })).toThrow('both appToken');
    expect(() => slack({ token: 'xoxb-fake', appToken: '' })).toThrow(ConfigError);
    expect(() => slack({ token: 'xapp-fake', signingSecret: SECRET })).toThrow('token begins with xapp-. Pass the Bot');
    expect(() => slack({ token: 'xoxb-fake', appToken: 'xoxb-fake' })).toThrow(
      'appToken begins with xoxb-. Pass an App',
    );
    expect(() => slack({ token: 'xoxb-fake', signingSecret: SECRET, secret: 'x' } as never)).toThrow(
      "no option 'secret'",
    );
  });

  test('waits as long as a limit says, for this chat alone, and names the error of Slack but not the text', async () => {
    const fake = await FakeSlack.start();
    ends.push(() => fake.close());
    const posting = slack({ token: 'xoxb-fake', signingSecret: SECRET, apiUrl: fake.apiUrl });
    const context = { signal: new AbortController().signal, fence: 1, key: 'k' };
    fake.limit('chat.postMessage', 7);
    fake.refuse('chat.postMessage', 'is_archived');

    await expect(posting.send('C1:1.1', { text: 'planted' }, context)).rejects.toMatchObject({
      retryAfterMs: 7_000,
      scope: 'chat',
    });
    const refusal: unknown = await Promise.resolve(posting.send('C1:1.1', { text: 'planted' }, context)).catch(
      (error) => error,
    );
    expect(refusal).toMatchObject({ code: 'delivery' });
    expect(String(refusal)).toContain('is_archived');
    expect(String(refusal)).not.toMatch(/planted|xoxb/);
    await posting.send('C1:1.1', { text: 'in the thread' }, context);
    expect(fake.messages('C1', '1.1')).toMatchObject([{ text: 'in the thread' }]);
  });

  test('answers a call with what the hook says, takes the wrong modal not in, and hides nothing that the hook throws', async () => {
    const heard: string[] = [];
    const intake: Intake = async ({ text }) => {
      heard.push(text);
      return 'accepted';
    };
    const asking = slack({
      token: 'xoxb-fake',
      signingSecret: SECRET,
      answer: ({ text }) => {
        if (text === '/bad') throw new Error('a fault of the hook');
        if (text === '/wrong') return 'no object' as never;
        return text === 'form' ? { response_action: 'errors', errors: { age: 'No number' } } : { text: 'On it.' };
      },
    });
    const ask = (fields: Record<string, string>): Promise<Response> =>
      asking.webhook!(
        post(new URLSearchParams(fields).toString(), { 'content-type': 'application/x-www-form-urlencoded' }),
        intake,
      );
    const view = { type: 'view_submission', user: { id: 'U1' }, trigger_id: 't', view: { callback_id: 'form' } };

    expect(await (await ask({ command: '/go', trigger_id: '1' })).json()).toEqual({ text: 'On it.' });
    expect(await (await ask({ payload: JSON.stringify(view) })).json()).toMatchObject({ response_action: 'errors' });
    await expect(ask({ command: '/bad', trigger_id: '2' })).rejects.toThrow('a fault of the hook');
    await expect(ask({ command: '/wrong', trigger_id: '3' })).rejects.toMatchObject({ code: 'config' });
    expect(heard).toEqual(['/go']);
  });

  test('hears what the fake posts over HTTP: events, commands and buttons', async () => {
    const heard: unknown[] = [];
    const intake: Intake = async ({ chat, kind, text }) => {
      heard.push([chat, kind, text]);
      return 'accepted';
    };
    const server = createServer(nodeListener({ webhook: (request) => provider.webhook!(request, intake) }));
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    ends.push(() => new Promise((resolve) => server.close(resolve)));
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/slack/events`;
    const fake = await FakeSlack.start({ eventsUrl: url, retryMs: [] });
    ends.push(() => fake.close());

    const { ts, delivered } = fake.say({ channel: 'C1', text: 'hi' });
    expect(await delivered).toMatchObject({ status: 200 });
    expect(await fake.command({ command: '/go', channel: 'C1', text: 'now' })).toMatchObject({ status: 200 });
    expect(await fake.action({ actionId: 'press', channel: 'D1', value: 'yes' })).toMatchObject({ status: 200 });

    expect(heard).toEqual([
      [`C1:${ts}`, 'message', 'hi'],
      ['C1', 'command', '/go now'],
      ['D1', 'callback', 'yes'],
    ]);
  });
});

describe('what nobody would send', () => {
  const provider = slack({ token: PLANTED, signingSecret: SECRET });
  const taking: Intake = async () => 'accepted';
  const form = { 'content-type': 'application/x-www-form-urlencoded' };
  const wholes: [string, Record<string, string>][] = [
    [JSON.stringify(wrapped({ id: '1.1', chat: 'C1', text: 'planted text' })), {}],
    [
      new URLSearchParams({
        payload: JSON.stringify({ type: 'block_actions', actions: [{ action_id: 'a' }] }),
      }).toString(),
      form,
    ],
    [new URLSearchParams({ command: '/go', text: 'planted text', trigger_id: 't', channel_id: 'C1' }).toString(), form],
  ];
  const seed = Math.floor(Math.random() * 2 ** 31);

  test(`fuzzed and truncated bodies are answered 200 or 400, and never crash (seed ${seed})`, async () => {
    let state = seed;
    const draw = (below: number): number => {
      state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
      return Math.floor((state / 2 ** 32) * below);
    };
    const counts: Record<number, number> = {};
    for (let n = 0; n < 1_500; n++) {
      const [whole, headers] = wholes[n % wholes.length]!;
      const bytes = Buffer.from(whole);
      const cut = Uint8Array.from(bytes.subarray(0, n % 2 === 0 ? bytes.length : draw(bytes.length)));
      for (let flips = draw(4); flips > 0 && cut.length > 0; flips--) cut[draw(cut.length)] = draw(256);

      const { status } = await provider.webhook!(post(cut, headers), taking);

      counts[status] = (counts[status] ?? 0) + 1;
    }
    expect(Object.keys(counts)).toEqual(['200', '400']);
  });

  test('a value of any kind in any field is a message or 400', async () => {
    const odd = [null, 7, true, '', [], {}, [null], { id: 7 }, { ts: {} }];
    const recorded = JSON.parse(wholes[0]![0]) as { event: Record<string, unknown> };
    for (const value of odd) {
      for (const name of Object.keys(recorded.event)) {
        const { status } = await provider.webhook!(
          post(JSON.stringify({ ...recorded, event: { ...recorded.event, [name]: value } })),
          taking,
        );
        expect(status).toBe(200);
      }
      for (const name of Object.keys(recorded)) {
        const { status } = await provider.webhook!(post(JSON.stringify({ ...recorded, [name]: value })), taking);
        expect([200, 400]).toContain(status);
      }
    }
  });

  test('no error of a send names a token or a text, whatever becomes of the call', async () => {
    const context = { signal: new AbortController().signal, fence: 1, key: 'k' };
    const broken = createServer((request, response) => {
      if (request.url?.includes('/cut/')) request.socket.destroy();
      else response.writeHead(503).end('<html>');
    });
    await new Promise<void>((resolve) => broken.listen(0, '127.0.0.1', resolve));
    ends.push(() => new Promise((resolve) => broken.close(resolve)));
    const base = `http://127.0.0.1:${(broken.address() as AddressInfo).port}`;
    const gone = await FakeSlack.start();
    await gone.close();
    const codes: unknown[] = [];
    for (const apiUrl of [`${base}/cut/`, `${base}/page/`, gone.apiUrl]) {
      const posting = slack({ token: PLANTED, signingSecret: SECRET, apiUrl });
      const error: unknown = await Promise.resolve(posting.send('C1', { text: 'planted text' }, context)).catch(
        (thrown: unknown) => thrown,
      );
      codes.push((error as { code?: unknown }).code);
      expect(inspect(error, { depth: 9, showHidden: true })).not.toContain('planted');
    }
    expect(codes).toEqual(['delivery-unknown', 'delivery-unknown', 'delivery']);
  });

  test('a token with a line break is refused, and not shown', () => {
    let error: unknown;
    try {
      slack({ token: `${PLANTED}\n`, signingSecret: SECRET });
    } catch (thrown) {
      error = thrown;
    }
    expect(error).toBeInstanceOf(ConfigError);
    expect(String(error)).not.toContain('planted');
  });
});

describe('what a reply is at Slack', () => {
  test('buttons stand under the text, and the talk with a person is where his modals are answered', async () => {
    const fake = await FakeSlack.start();
    ends.push(() => fake.close());
    const posting = slack({ token: PLANTED, signingSecret: SECRET, apiUrl: fake.apiUrl });
    const context = { signal: new AbortController().signal, fence: 1, key: 'k' };

    await posting.send('D1', { text: 'Large or small?', buttons: [{ id: 'large', title: 'Large' }] }, context);
    await posting.send('user:U1', { text: 'Thank you' }, context);

    expect(fake.calls[0]?.args).toMatchObject({
      channel: 'D1',
      blocks: [
        { type: 'section', text: { text: 'Large or small?' } },
        {
          type: 'actions',
          elements: [{ type: 'button', action_id: 'large', value: 'large', text: { text: 'Large' } }],
        },
      ],
    });
    expect(fake.posted('U1')).toEqual(['Thank you']);
    await expect(posting.send('team:T1', { text: 'x' }, context)).rejects.toMatchObject({ code: 'delivery' });
  });
});

describe('what a body is', () => {
  test('is in the chat that chatName names', () => {
    const talk = { ...wrapped({ id: '1.1', chat: 'C1', text: 'hi' }) };
    const inChannel = { ...talk, event: { ...(talk.event as object), channel_type: 'channel' } };
    const inThread = { ...talk, event: { ...(talk.event as object), thread_ts: '1.0' } };

    expect(messageOf(inChannel)?.chat).toBe(chatName({ channel: 'C1', thread: '1.1' }));
    expect(messageOf(inThread)?.chat).toBe(chatName({ channel: 'C1', thread: '1.0' }));
    expect(messageOf(wrapped({ id: '1.1', chat: 'D1', text: 'hi' }))?.chat).toBe(chatName({ channel: 'D1' }));
    expect(messageOf({ command: '/go', channel_id: 'C1', user_id: 'U1' })?.chat).toBe(chatName({ channel: 'C1' }));
    expect(messageOf({ type: 'view_submission', user: { id: 'U1' } })?.chat).toBe(chatName({ user: 'U1' }));
  });

  test('a message and its mention are one; under another wrapper, too', () => {
    const one = wrapped({ id: '1.1', chat: 'C1', text: 'hi' });
    const mention = { ...one, event_id: 'Ev9', event: { ...(one.event as object), type: 'app_mention' } };

    expect(messageOf(mention)?.id).toBe(messageOf(one)?.id);
    expect(messageOf(mention)?.kind).toBe('mention');
  });

  test('what the bot itself wrote is none', () => {
    const one = wrapped({ id: '1.1', chat: 'D1', text: 'hi' });

    expect(
      messageOf({ ...one, event: { ...(one.event as object), user: 'U00FAKEBOT', bot_id: 'B1' } }),
    ).toBeUndefined();
  });

  test('what nobody knows is unknown, with all that it had', () => {
    const body = callbackOf({ type: 'event_of_the_future', channel: 'C1' }, { eventId: 'Ev1', ts: '1.0' });

    expect(messageOf(body)).toMatchObject({ chat: 'C1', id: 'Ev1', kind: 'unknown', raw: body });
    expect(messageOf({ type: 'holo_gesture', user: { id: 'U1' } })).toMatchObject({ chat: 'user:U1', kind: 'unknown' });
  });

  test('every recorded payload is a message, typed or unknown', () => {
    const folder = new URL('../testing/fixtures/', import.meta.url);
    const files = readdirSync(folder).filter((file) => file.endsWith('.json'));
    const bodies = files.flatMap((file) => bodiesIn(JSON.parse(readFileSync(new URL(file, folder), 'utf8'))));
    expect(bodies.length).toBeGreaterThan(20);
    for (const body of bodies) {
      const message = messageOf(body);
      if (message === undefined) continue;
      expect(message.chat).toMatch(/^([CDG]\w+(:\d+\.\d+)?|user:\w+)$/);
      expect(message.kind).not.toBe('unknown');
      expect(messageOf(structuredClone(body))?.id).toBe(message.id);
    }
  });
});

/** Everything in a recording that Slack would have posted as a body, however deep it lies. */
function bodiesIn(value: unknown): Body[] {
  if (typeof value !== 'object' || value === null) return [];
  const body = value as Body;
  const isBody = body.type === 'event_callback' || body.command !== undefined || body.trigger_id !== undefined;
  return isBody ? [body] : Object.values(value).flatMap(bodiesIn);
}
