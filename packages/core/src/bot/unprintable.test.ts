import { expect, test } from 'vitest';
import { MemoryCoordinator } from '../coordination/MemoryCoordinator.js';
import { FakeProvider } from '../testing/FakeProvider.js';
import { MemoryMesh } from '../testing/MemoryMesh.js';
import { VirtualClock } from '../testing/VirtualClock.js';
import { Bot } from './Bot.js';

test('an error that cannot be printed parks its message like any other, and blocks nobody', async () => {
  const clock = new VirtualClock();
  const mesh = new MemoryMesh({ clock });
  const provider = new FakeProvider();
  const lines: string[] = [];
  const coordinator = new MemoryCoordinator({ mesh, maxAttempts: 2 });
  const bot = new Bot({ provider, coordinator, clock, log: (line) => lines.push(line) });
  bot.when('bad', () => {
    throw Object.create(null);
  });
  bot.when('hi', (ctx) => ctx.reply('ok'));
  await clock.run(async () => {
    await bot.start();
    await provider.receive({ id: '1', chat: 'c', text: 'bad' });
    await provider.receive({ id: '2', chat: 'c', text: 'hi' });
    await clock.sleep(60_000);
    await bot.stop();
  });

  expect(provider.sent.map(({ text }) => text)).toEqual(['ok']);
  expect((await mesh.inspect())[0]?.parked).toHaveLength(1);
  expect(lines.join('\n')).toContain('cannot be shown');
});
