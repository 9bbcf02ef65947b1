// A second opinion of Slack's Web API: the package emulate, by other hands than ours. What the fake answers, it answers too.
import { createServer } from 'node:net';
import { webApi } from '@slack/bolt';
import { createEmulator, type Emulator } from 'emulate';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { SlackError } from './errors.js';
import { slack } from './slack.js';
import { FakeSlack } from './testing/FakeSlack.js';

const TOKEN = 'xoxb-fake';

let emulator: Emulator;
let fake: FakeSlack;
let channel: string;

beforeAll(async () => {
  const port = await freePort();
  emulator = await createEmulator({
    service: 'slack',
    port,
    seed: { tokens: { [TOKEN]: { login: 'bot', scopes: [] } }, slack: { channels: [{ name: 'general' }] } },
  });
  fake = await FakeSlack.start();
  const { channels } = await clientOf(emulated()).conversations.list();
  channel = channels?.[0]?.id ?? '';
  expect(channel).not.toBe('');
});

afterAll(async () => {
  await emulator.close();
  await fake.close();
});

test('both answer the same calls of the real client alike: what is done, and what is refused for which reason', async () => {
  const [ours, theirs] = [await answersOf(fake.apiUrl), await answersOf(emulated())];

  expect(ours).toEqual(theirs);
  expect(ours.filter((answer) => answer.endsWith(': ok'))).toHaveLength(5);
});

test('a reply of the channel stands in the emulated channel, in its thread', async () => {
  const client = clientOf(emulated());
  const { ts = '' } = await client.chat.postMessage({ channel, text: 'the thread' });
  const provider = slack({ token: TOKEN, signingSecret: 'secret', apiUrl: emulated() });
  const signal = new AbortController().signal;

  await provider.send(`${channel}:${ts}`, { text: 'a reply' }, { key: 'k', signal, fence: 1 });

  const { messages = [] } = await client.conversations.replies({ channel, ts });
  expect(messages.map(({ text }) => text)).toEqual(['the thread', 'a reply']);
});

test('call() gives what both answer, and rejects with the same reasons', async () => {
  const outcomes = await Promise.all(
    [fake.apiUrl, emulated()].map(async (apiUrl) => {
      const provider = slack({ token: TOKEN, signingSecret: 'secret', apiUrl });
      const { ts } = await provider.call('chat.postMessage', { channel, text: 'by call' });
      const reasons = [
        await reasonOf(provider.call('chat.update', { channel, ts: '1.1', text: 'nowhere' })),
        await reasonOf(provider.call('chat.delete', { channel, ts })),
        await reasonOf(provider.call('reactions.add', { channel, timestamp: ts, name: 'eyes' })),
      ];
      return [typeof ts, ...reasons];
    }),
  );

  expect(outcomes[0]).toEqual(['string', 'message_not_found', 'done', 'message_not_found']);
  expect(outcomes[1]).toEqual(outcomes[0]);
});

async function reasonOf(call: Promise<unknown>): Promise<string> {
  return call.then(
    () => 'done',
    (error: unknown) => (error instanceof SlackError ? error.reason : String(error)),
  );
}

async function answersOf(apiUrl: string): Promise<string[]> {
  const client = clientOf(apiUrl);
  const { ts = '' } = await client.chat.postMessage({ channel, text: 'hi' });
  const mark = { channel, timestamp: ts, name: 'eyes' };
  const calls: [string, Record<string, unknown>][] = [
    ['chat.postMessage', { channel }],
    ['chat.update', { channel, ts, text: 'there' }],
    ['chat.update', { channel, ts: '1.1', text: 'nowhere' }],
    ['reactions.add', mark],
    ['reactions.add', mark],
    ['reactions.remove', mark],
    ['conversations.replies', { channel, ts }],
    ['chat.delete', { channel, ts }],
    ['chat.delete', { channel, ts }],
  ];
  const answers: string[] = [];
  for (const [method, args] of calls) answers.push(`${method}: ${await outcome(client.apiCall(method, args))}`);
  answers.push(
    `without a token: ${await outcome(clientOf(apiUrl, '').apiCall('chat.postMessage', { channel, text: 'x' }))}`,
  );
  return answers;
}

async function outcome(call: Promise<unknown>): Promise<string> {
  try {
    await call;
    return 'ok';
  } catch (error) {
    return String((error as { data?: { error?: string } }).data?.error ?? error);
  }
}

function clientOf(slackApiUrl: string, token = TOKEN): webApi.WebClient {
  return new webApi.WebClient(token, { slackApiUrl, retryConfig: { retries: 0 }, logLevel: webApi.LogLevel.ERROR });
}

function emulated(): string {
  return `${emulator.url}/api/`;
}

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as { port: number };
  await new Promise((resolve) => server.close(resolve));
  return port;
}
