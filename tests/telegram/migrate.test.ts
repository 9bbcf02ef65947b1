// The programs that docs/migrate-from-grammy.md and docs/migrate-from-telegraf.md show, as they stand in examples/telegram.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { FakeTelegram } from '@botmesh/telegram/testing';
import { expect, test } from 'vitest';
import { redis } from '../cluster/backends.js';

const limit = 60_000;

/** Runs a program of the example until `act` is over, and then ends it by `signal`. */
class Program {
  readonly process: ChildProcess;
  readonly gone: Promise<unknown>;

  constructor(name: string, fake: FakeTelegram, more: Record<string, string> = {}) {
    const file = fileURLToPath(new URL(`../../examples/telegram/${name}.mjs`, import.meta.url));
    const env = { ...process.env, BOT_TOKEN: fake.token, API_ROOT: fake.apiRoot, ...more };
    this.process = spawn(process.execPath, [file], { env, stdio: ['ignore', 'ignore', 'inherit'] });
    this.gone = once(this.process, 'exit');
  }

  async end(signal: NodeJS.Signals): Promise<number | null> {
    this.process.kill(signal);
    await this.gone;
    return this.process.exitCode;
  }
}

async function converse(fake: FakeTelegram, texts: readonly string[]): Promise<void> {
  const before = fake.calls.length;
  for (const text of texts) fake.say(1, text);
  await fake.until('all is answered', () => fake.calls.length === before + texts.length, 40_000);
}

test.concurrent.each(['grammy', 'telegraf'])(
  '%s: the program before counts in one process, and forgets with it',
  { timeout: limit },
  async (framework) => {
    await using fake = await FakeTelegram.start();
    const program = new Program(`${framework}-before`, fake);

    await converse(fake, ['/start', 'a', 'b']);
    const code = await program.end('SIGTERM');

    expect(fake.textsTo(1)).toEqual(['Write something.', 'Message 1', 'Message 2']);
    expect(code).toBe(0);
  },
);

test.concurrent.each(['grammy', 'telegraf'])(
  '%s: the program after counts on in the other process when one is killed',
  { timeout: limit },
  async (framework) => {
    await using fake = await FakeTelegram.start();
    const backend = await redis.open();
    const env = { REDIS_URL: (backend.reach as { url: string }).url };
    const first = new Program(`${framework}-after`, fake, env);
    // Answered once more in the same chat: by then the message before it is marked as handled.
    await converse(fake, ['/start', 'a', '/start']);
    const second = new Program(`${framework}-after`, fake, env);

    await first.end('SIGKILL');
    for (const text of ['b', 'c']) fake.say(1, text);
    await fake.until('it counts on', () => fake.textsTo(1).includes('Message 3'), 40_000);
    const code = await second.end('SIGTERM');
    await backend.close();

    const counted = fake.textsTo(1).filter((text) => text.startsWith('Message'));
    expect(counted).toEqual(['Message 1', 'Message 2', 'Message 3']);
    expect([fake.mostPolling, fake.conflicts]).toEqual([1, 0]);
    expect(code).toBe(0);
  },
);
