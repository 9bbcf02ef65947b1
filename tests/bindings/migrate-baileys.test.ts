// The two programs of the README of packages/baileys, with a fake of Baileys' shape in its place.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { FakeWhatsApp } from '../../packages/baileys/testing/FakeWhatsApp.js';
import { redis } from '../cluster/backends.js';
import { pause } from '../cluster/Cluster.js';

const at = (path: string): string => fileURLToPath(new URL(`../../packages/baileys/${path}`, import.meta.url));

async function answers(platform: FakeWhatsApp, program: string, redisUrl = ''): Promise<number | string | null> {
  const env = { ...process.env, FAKE_WHATSAPP_PORT: `${platform.port}`, REDIS_URL: redisUrl };
  const args = ['--import', at('testing/as-baileys.mjs'), at(`examples/${program}`)];
  const child = spawn(process.execPath, args, { env, stdio: ['ignore', 'ignore', 'inherit'] });
  const ended = once(child, 'exit');
  try {
    platform.deliver('main', { id: '1', jid: 'ana', text: 'hi' });
    const untilMs = Date.now() + 20_000;
    while (platform.texts('main', 'ana').length === 0 && Date.now() < untilMs) await pause(10);
  } finally {
    child.kill('SIGTERM');
  }
  const [code, signal] = (await ended) as [number | null, string | null];
  return code ?? signal;
}

test('the program before answers', { timeout: 40_000 }, async () => {
  await using platform = await FakeWhatsApp.open();

  await answers(platform, 'before.mjs');

  expect(platform.texts('main', 'ana')).toEqual(['You wrote: hi']);
});

test('the program after answers, and ends by a signal', { timeout: 40_000 }, async () => {
  const backend = await redis.open();
  try {
    await using platform = await FakeWhatsApp.open();

    const code = await answers(platform, 'after.mjs', (backend.reach as { url: string }).url);

    expect(platform.texts('main', 'ana')).toEqual(['You wrote: hi']);
    expect(code).toBe(0);
  } finally {
    await backend.close();
  }
});
