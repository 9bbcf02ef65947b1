// The platforms of the suite, each by the fake that its package brings.
import { FakeSlack } from '@botmesh/slack/testing';
import { FakeTelegram } from '@botmesh/telegram/testing';
import { change, FakeCloudApi, status, textMessage } from '@botmesh/whatsapp/testing';
import { expect } from 'vitest';
import type { Platform, PlatformKind } from './Stage.js';

const CHATS = 5;
const numbered = (name: (n: number) => string): string[] => Array.from({ length: CHATS }, (_, n) => name(n + 1));

export interface SlackPlatform extends Platform {
  readonly fake: FakeSlack;
}

const TOKEN = 'xoxb-fake';
/** Slack waits longer before it delivers again, and gives up. */
const RETRY_MS = Array<number>(400).fill(30);

function onSlack(fake: FakeSlack, settings: object, check: () => void): SlackPlatform {
  const { apiUrl } = fake;
  return {
    fake,
    channel: 'slack',
    settings: { token: TOKEN, apiUrl, ...settings },
    chats: numbered((n) => `D${n}`),
    write: async (channel, text) => {
      expect((await fake.say({ channel, text }).delivered).isAcknowledged).toBe(true);
    },
    sent: () =>
      fake.calls
        .filter(({ method, error }) => method === 'chat.postMessage' && error === undefined)
        .map(({ args, atMs }) => ({ chat: String(args.channel as string), text: String(args.text as string), atMs })),
    loseAnswers: (times) => fake.loseAnswers('chat.postMessage', times),
    check,
    close: () => fake.close(),
  };
}

export const slackSocket = {
  name: 'Slack by Socket Mode',
  async open() {
    // Slack finds out soon that a process answers no more: before its lease has run out.
    const fake = await FakeSlack.start({ ackMs: 1_000, pingMs: 400, retryMs: RETRY_MS });
    return onSlack(fake, { appToken: 'xapp-fake' }, () => expect(fake.sockets.most).toBe(1));
  },
} satisfies PlatformKind;

export const slackHttp = {
  name: 'Slack by the Events API',
  async open(url) {
    const fake = await FakeSlack.start({ eventsUrl: url, retryMs: RETRY_MS });
    return onSlack(fake, { signingSecret: fake.signingSecret }, () => {});
  },
} satisfies PlatformKind;

const NUMBER = '106540352242922';

export const cloudApi = {
  name: 'WhatsApp',
  async open(url): Promise<Platform> {
    const fake = await FakeCloudApi.start({ patienceMs: 2_000 });
    fake.webhooks = [url];
    const { token, appSecret } = fake;
    let statuses = 0;
    return {
      channel: 'whatsapp',
      settings: { token, appSecret, verifyToken: 'ours', apiUrl: fake.url, timeoutMs: 1_500 },
      chats: numbered((n) => `1650555000${n}`),
      write: async (chat, text) => {
        statuses += 1;
        const read = { statuses: [status(`wamid.${statuses}`, chat, 'read')] };
        await fake.deliver(change(NUMBER, { messages: [textMessage(chat, text)] }), change(NUMBER, read));
      },
      sent: () =>
        fake.sent.map(({ to, body, atMs }) => ({ chat: to, text: String((body.text as { body: string }).body), atMs })),
      loseAnswers: (times) => fake.fail({ instead: 'cut', isSent: true, times }),
      check: () => expect(fake.delivered.some(({ status: answer }) => answer !== 200)).toBe(true),
      close: () => fake[Symbol.asyncDispose](),
    };
  },
} satisfies PlatformKind;

function onTelegram(fake: FakeTelegram, settings: object, check: () => void): Platform {
  const { apiRoot, token } = fake;
  return {
    channel: 'telegram',
    settings: { apiRoot, token, ...settings },
    chats: numbered((n) => String(n > 3 ? -n : n)),
    write: async (chat, text) => {
      fake.say(Number(chat), text);
    },
    sent: () =>
      fake.calls
        .filter(({ method, status: answer }) => method === 'sendMessage' && answer === 200)
        .map(({ payload, atMs }) => ({ chat: String(payload.chat_id), text: String(payload.text), atMs })),
    loseAnswers: (times) => fake.loseAnswers('sendMessage', times),
    check,
    close: () => fake.stop(),
  };
}

export const telegramWebhook = {
  name: 'Telegram by webhook',
  async open(url) {
    const fake = await FakeTelegram.start({ redeliverMs: 100 });
    await fetch(`${fake.apiRoot}/bot${fake.token}/setWebhook?url=${url}&secret_token=sesame`);
    // Some were refused on the way, or the faults have missed everything.
    return onTelegram(fake, { webhook: { secretToken: 'sesame' } }, () =>
      expect(fake.deliveries.some(({ status: answer }) => answer !== 200)).toBe(true),
    );
  },
} satisfies PlatformKind;

export const telegramPolling = {
  name: 'Telegram by polling',
  async open() {
    const fake = await FakeTelegram.start();
    return onTelegram(fake, { pollSeconds: 1 }, () => expect([fake.mostPolling, fake.conflicts]).toEqual([1, 0]));
  },
} satisfies PlatformKind;
