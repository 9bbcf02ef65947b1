// The two programs of docs/migrate-from-chat-sdk.md, with the real SDK: the one before in a process, the one after in two.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { delivery, FakeTelegram, SECRET, update } from '../../packages/chat-sdk/testing/FakeTelegram.js';
import { redis } from '../cluster/backends.js';
import { pause } from '../cluster/Cluster.js';

const programAt = (name: string): string =>
  fileURLToPath(new URL(`../../packages/chat-sdk/examples/${name}`, import.meta.url));

interface Program extends AsyncDisposable {
  readonly child: ChildProcess;
  readonly port: number;
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  await once(server.close(), 'close');
  return port;
}

async function run(name: string, telegram: FakeTelegram, redisUrl = ''): Promise<Program> {
  const port = await freePort();
  const env = {
    ...process.env,
    PORT: `${port}`,
    REDIS_URL: redisUrl,
    TELEGRAM_BOT_TOKEN: '1:token',
    TELEGRAM_API_BASE_URL: telegram.url,
    TELEGRAM_WEBHOOK_SECRET_TOKEN: SECRET,
  };
  const child = spawn(process.execPath, [programAt(name)], { env, stdio: ['ignore', 'pipe', 'inherit'] });
  for await (const part of child.stdout.iterator({ destroyOnReturn: false })) {
    if (String(part).includes('listening')) break;
  }
  child.stdout.resume();
  return {
    child,
    port,
    async [Symbol.asyncDispose]() {
      if (child.exitCode !== null || child.signalCode !== null) return;
      child.kill('SIGKILL');
      await once(child, 'exit');
    },
  };
}

async function deliver(to: Program, id: number, text: string): Promise<number> {
  const body = update(id, 7, text);
  const { headers } = delivery(body);
  const response = await fetch(`http://127.0.0.1:${to.port}/`, { method: 'POST', headers, body: JSON.stringify(body) });
  await response.arrayBuffer();
  return response.status;
}

async function texts(telegram: FakeTelegram, count: number): Promise<string[]> {
  for (const untilMs = Date.now() + 20_000; telegram.texts(7).length < count && Date.now() < untilMs; ) await pause(10);
  return telegram.texts(7);
}

test('the program before answers what one process gets', { timeout: 60_000 }, async () => {
  await using telegram = await FakeTelegram.open();
  await using bot = await run('before.mjs', telegram);

  expect(await deliver(bot, 1, 'one')).toBe(200);
  expect(await texts(telegram, 1)).toEqual(['1: one']);
});

test('the program after answers in order what two processes get, and ends by a signal', {
  timeout: 60_000,
}, async () => {
  const backend = await redis.open();
  try {
    await using telegram = await FakeTelegram.open();
    const { url } = backend.reach as { url: string };
    await using a = await run('after.mjs', telegram, url);
    await using b = await run('after.mjs', telegram, url);

    for (const [at, text] of ['one', 'two', 'three', 'four'].entries()) {
      expect(await deliver(at % 2 ? a : b, at + 1, text)).toBe(200);
    }
    expect(await deliver(a, 1, 'one')).toBe(200);

    expect(await texts(telegram, 4)).toEqual(['1: one', '2: two', '3: three', '4: four']);
    const ended = once(a.child, 'exit');
    a.child.kill('SIGTERM');
    expect((await ended)[0]).toBe(0);
  } finally {
    await backend.close();
  }
});
