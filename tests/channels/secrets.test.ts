// What was planted in tokens, secrets and messages, looked for in all that a channel and its bot say: log lines, errors with all their
// causes, events, answers, probes and what is written to the console, whatever the platform does.
import { once } from 'node:events';
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { inspect } from 'node:util';
import { Bot, SIGNATURE_HEADER } from '@botmesh/core';
import type { Provider, Reply } from '@botmesh/core/spi';
import { slack } from '@botmesh/slack';
import { signRequest } from '@botmesh/slack/testing';
import { telegram } from '@botmesh/telegram';
import { whatsapp } from '@botmesh/whatsapp';
import { signedHeaders } from '@botmesh/whatsapp/testing';
import { afterEach, expect, test, vi } from 'vitest';

const TOKEN = '4711:planted-token';
const APP_TOKEN = 'xapp-planted-app-token';
const SECRET = 'planted-secret';
const TEXT = 'planted words';
const REPLY = 'planted reply';
/** All of them, and nothing else, have it in them. */
const PLANTED = /planted/;

const closing: (() => unknown)[] = [];

afterEach(async () => {
  vi.restoreAllMocks();
  for (const close of closing.splice(0).reverse()) await close();
});

/** Everything that can go wrong behind a call, and the words of a platform that quotes what it was told. */
const TROUBLE: Readonly<Record<string, RequestListener>> = {
  cut: ({ socket }) => socket.destroy(),
  half: (_, answer) => void answer.writeHead(200, { 'content-length': '900' }).write('{"ok":', () => answer.destroy()),
  page: (request, answer) => answer.writeHead(502).end(`<h1>${request.url} ${TEXT}</h1>`),
  odd: (request, answer) => answer.writeHead(200).end(`"${request.url} ${request.headers.authorization}"`),
  moved: (request, answer) => answer.writeHead(307, { location: `http://127.0.0.1:1${request.url}` }).end(),
  quoting: (request, answer) => {
    const words = `"${TEXT}" "${request.url}" "${request.headers.authorization}"`;
    const refusals = {
      error: { code: 100, message: words, fbtrace_id: 'trace' },
      description: `Bad Request: ${words}`,
    };
    answer.writeHead(400).end(JSON.stringify({ ok: false, error_code: 400, ...refusals }));
  },
  refused: (_, answer) =>
    answer.writeHead(401).end(JSON.stringify({ ok: false, error: 'invalid_auth', error_code: 401 })),
  failing: (_, answer) =>
    answer.writeHead(500).end(JSON.stringify({ ok: false, error: 'internal_error', error_code: 500 })),
  limited: (_, answer) =>
    answer.writeHead(429, { 'retry-after': '0' }).end('{"ok":false,"error":"ratelimited","error_code":429}'),
};

interface Channel {
  readonly name: string;
  make(
    apiUrl: string,
    log: (line: string) => void,
  ): Provider & { call?(method: string, args: Readonly<Record<string, unknown>>): Promise<unknown> };
  /** What a person writes, as the platform posts it. Undefined for one that is not called. */
  readonly body?: string;
  sign?(body: string, secret: string): Record<string, string>;
}

const slackBody = JSON.stringify({
  type: 'event_callback',
  event_id: 'Ev1',
  event: { type: 'message', channel: 'D1', channel_type: 'im', user: 'U1', ts: '1.1', text: TEXT },
});
const telegramBody = JSON.stringify({
  update_id: 1,
  message: { message_id: 1, chat: { id: 5 }, from: { id: 5 }, text: TEXT },
});
const whatsappBody = JSON.stringify({
  object: 'whatsapp_business_account',
  entry: [
    {
      id: '1',
      changes: [
        {
          field: 'messages',
          value: {
            messaging_product: 'whatsapp',
            metadata: { phone_number_id: '106' },
            messages: [{ id: 'wamid.1', from: '1650', type: 'text', text: { body: TEXT } }],
          },
        },
      ],
    },
  ],
});

const CHANNELS: readonly Channel[] = [
  {
    name: 'Slack by HTTP',
    make: (apiUrl, log) => slack({ token: `xoxb-${TOKEN}`, signingSecret: SECRET, apiUrl, log }),
    body: slackBody,
    sign: (body, secret) => signRequest(secret, body, Date.now()),
  },
  {
    name: 'Slack by a socket',
    make: (apiUrl, log) => slack({ token: `xoxb-${TOKEN}`, appToken: APP_TOKEN, apiUrl, log }),
  },
  {
    name: 'Telegram by webhook',
    make: (apiRoot, log) =>
      telegram({ token: TOKEN, webhook: { secretToken: SECRET }, apiRoot, log, timeoutMs: 2_000 }),
    body: telegramBody,
    sign: (_body, secret) => ({ 'x-telegram-bot-api-secret-token': secret }),
  },
  {
    name: 'Telegram by polling',
    make: (apiRoot, log) => telegram({ token: TOKEN, apiRoot, log, pollSeconds: 1 }),
  },
  {
    name: 'WhatsApp',
    make: (apiUrl) => whatsapp({ token: TOKEN, appSecret: SECRET, verifyToken: SECRET, apiUrl, timeoutMs: 2_000 }),
    body: whatsappBody,
    sign: (body, secret) => signedHeaders(secret, body),
  },
];

/** Where the platform is, in this trouble. */
async function platform(trouble: string): Promise<string> {
  const server = createServer(TROUBLE[trouble]).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const close = (): void => {
    server.close();
    server.closeAllConnections();
  };
  if (trouble === 'away') close();
  else closing.push(close);
  return url;
}

function call(channel: Channel, body: string, secret = SECRET): Request {
  const headers = { 'content-type': 'application/json', ...channel.sign?.(body, secret) };
  return new Request('http://bot/', { method: 'POST', body, headers });
}

async function answersOf(bot: Bot, channel: Channel): Promise<string[]> {
  const { body } = channel;
  const requests = ['/livez', '/readyz', `/?hub.mode=subscribe&hub.verify_token=${SECRET}x&hub.challenge=1`].map(
    (path) => new Request(`http://bot${path}`),
  );
  if (body !== undefined) {
    requests.push(call(channel, body), call(channel, body.slice(0, -9)), call(channel, body, `${SECRET}x`));
    requests.push(call(channel, JSON.stringify(TEXT)), call(channel, JSON.stringify({ [TEXT]: TEXT.repeat(300_000) })));
    requests.push(new Request('http://bot/', { method: 'POST', body, headers: { [SIGNATURE_HEADER]: SECRET } }));
  }
  const answers = await Promise.all(requests.map((request) => bot.webhook(request)));
  return Promise.all(
    answers.map(async (answer) => `${answer.status} ${inspect([...answer.headers])} ${await answer.text()}`),
  );
}

const troubles = [...Object.keys(TROUBLE), 'away'];

test.each(CHANNELS.flatMap((channel) => troubles.map((trouble) => ({ name: channel.name, trouble, channel }))))(
  '$name says nothing of its secrets and messages when the platform is $trouble',
  async ({ channel, trouble }) => {
    const said: unknown[] = [];
    const listen = (...words: unknown[]): void => void said.push(words);
    for (const method of ['log', 'info', 'warn', 'error', 'debug'] as const)
      vi.spyOn(console, method).mockImplementation(listen);
    const provider = channel.make(await platform(trouble), listen);
    const bot = new Bot({ provider, log: listen, maxAttempts: 2, retryDelayMs: 1, onUnknownSend: 'drop' });
    bot.onError((error, context) => listen(error, Object.keys(context ?? {})));
    for (const event of ['ended', 'unknownSend', 'local', 'progress'] as const) bot.on(event, listen);
    let handled = 0;
    bot.use(async (ctx) => {
      handled += 1;
      ctx.progress?.(1 as never);
      await ctx.reply(REPLY);
    });
    await Promise.race([bot.start().catch(listen), new Promise((resolve) => setTimeout(resolve, 300))]);
    const signal = AbortSignal.timeout(2_000);
    const reply: Reply = { text: REPLY, buttons: [{ id: 'planted', title: REPLY }] };
    const sending = { signal, fence: 1, key: 'k' };

    said.push(...(await answersOf(bot, channel)));
    await (async () => provider.send(channel.name === 'WhatsApp' ? '106:1650' : '5', reply, sending))().catch(listen);
    await provider.call?.('getMe', { text: TEXT }).catch(listen);
    await bot.stop({ drainMs: 1_000 }).catch(listen);

    // Something was said, or this has looked at nothing.
    expect(said.length).toBeGreaterThan(3);
    if (channel.body !== undefined) expect(handled).toBeGreaterThan(0);
    const shown = inspect(said, { depth: Infinity, showHidden: true, maxStringLength: null, maxArrayLength: null });
    const leaks = shown.split('\n').filter((line) => PLANTED.test(line));
    expect(leaks).toEqual([]);
  },
);
