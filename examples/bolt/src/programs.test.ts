// The program before and after, each as it is shown in the documents, against a fake of Slack.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import process from 'node:process';
import { fileURLToPath } from 'node:url';
import { FakeSlack } from '@botmesh/slack/testing';
import { afterEach, expect, test } from 'vitest';

const ends: (() => unknown)[] = [];

afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end();
});

async function run(command: string, args: readonly string[], until: string, env = process.env): Promise<ChildProcess> {
  const child = spawn(command, args, { env, stdio: ['ignore', 'pipe', 'inherit'], timeout: 60_000 });
  const ended = once(child, 'exit');
  ends.push(async () => {
    child.kill('SIGTERM');
    await ended;
  });
  for await (const part of child.stdout.setEncoding('utf8').iterator({ destroyOnReturn: false })) {
    if (String(part).includes(until)) break;
  }
  // Read on, or the program stands still when nobody does.
  child.stdout.resume();
  return child;
}

function program(name: string, slack: FakeSlack, redisUrl = ''): Promise<ChildProcess> {
  const path = fileURLToPath(new URL(`../dist/${name}.js`, import.meta.url));
  const tokens = { SLACK_BOT_TOKEN: 'xoxb-fake', SLACK_APP_TOKEN: 'xapp-fake', SLACK_API_URL: slack.apiUrl };
  return run(process.execPath, [path], 'ready', { ...process.env, ...tokens, REDIS_URL: redisUrl });
}

const redisServer = (process.env.PATH ?? '')
  .split(delimiter)
  .flatMap((path) => ['redis-server', 'valkey-server'].map((name) => join(path, name)))
  .find((path) => existsSync(path));

async function redis(): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), 'botmesh-bolt-'));
  ends.push(() => rmSync(folder, { recursive: true, force: true }));
  const probe = createServer().listen(0, '127.0.0.1');
  await once(probe, 'listening');
  const { port } = probe.address() as AddressInfo;
  await once(probe.close(), 'close');
  const settings = ['--port', `${port}`, '--bind', '127.0.0.1', '--appendonly', 'yes', '--dir', folder];
  await run(redisServer!, settings, 'Ready to accept connections');
  return `redis://127.0.0.1:${port}`;
}

async function fakeSlack(): Promise<FakeSlack> {
  const slack = await FakeSlack.start({ retryMs: Array<number>(50).fill(100) });
  ends.push(() => slack.close());
  return slack;
}

async function until(holds: () => boolean): Promise<void> {
  for (let i = 0; !holds(); i++) {
    if (i > 2_000) throw new Error('It did not come about in time.');
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

async function talksAsShown(slack: FakeSlack): Promise<void> {
  await slack.say({ channel: 'D1', text: 'add milk' }).delivered;
  await until(() => slack.posted('D1').length === 1);
  expect((await slack.command({ command: '/order', channel: 'D1', text: 'milk' })).isAcknowledged).toBe(true);
  await until(() => slack.posted('D1').length === 2);
  expect(slack.posted('D1')).toEqual(['Added milk.', 'Ordered milk.']);
}

test('the program before: two of them have two sockets, and one dies with what it was told', async () => {
  const slack = await fakeSlack();
  await Promise.all([program('before', slack), program('before', slack)]);

  await talksAsShown(slack);

  expect(slack.sockets).toMatchObject({ open: 2, most: 2 });
}, 60_000);

test.skipIf(redisServer === undefined)(
  'the program after: two of them have one socket, and the second goes on when the first ends',
  async () => {
    const slack = await fakeSlack();
    const url = await redis();
    const first = await program('after', slack, url);
    await until(() => slack.sockets.open === 1);
    await program('after', slack, url);

    await talksAsShown(slack);
    const ended = once(first, 'exit');
    first.kill('SIGTERM');

    expect((await ended)[0]).toBe(0);
    await slack.say({ channel: 'D1', text: 'add bread' }).delivered;
    await until(() => slack.posted('D1').length === 3);
    expect(slack.posted('D1')[2]).toBe('Added bread.');
    expect(slack.sockets).toEqual({ open: 1, most: 1, opened: 2 });
  },
  60_000,
);
