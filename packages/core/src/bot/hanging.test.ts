import { expect, test } from 'vitest';
import { MemoryCoordinator } from '../coordination/MemoryCoordinator.js';
import type { Provider } from '../providers/provider.js';
import { FakeProvider } from '../testing/FakeProvider.js';
import { MemoryMesh } from '../testing/MemoryMesh.js';
import { VirtualClock } from '../testing/VirtualClock.js';
import { Bot } from './Bot.js';

const never = (): Promise<void> => new Promise(() => {});

function lab() {
  const clock = new VirtualClock();
  const mesh = new MemoryMesh({ clock });
  return { clock, mesh, coordinator: new MemoryCoordinator({ mesh, maxAttempts: 1 }) };
}

test.each(['send', 'hook'])('a %s that never ends holds its chat no longer than maxTurnMs', async (what) => {
  const { clock, mesh, coordinator } = lab();
  const provider = new FakeProvider();
  const send = provider.send.bind(provider);
  provider.send = (chat, reply, context) => (reply.text === 'hang' ? never() : send(chat, reply, context));
  const onError = what === 'hook' ? never : () => {};
  const bot = new Bot({ provider, coordinator, clock, maxTurnMs: 1_000, retryDelayMs: 0, onError, log: () => {} });
  bot.when('bad', (ctx) => {
    void ctx.reply('hang');
    if (what === 'hook') throw new Error('failed');
  });
  bot.when('hi', (ctx) => ctx.reply('ok'));
  await clock.run(async () => {
    await bot.start();
    await provider.receive({ id: '1', chat: 'c', text: 'bad' });
    await provider.receive({ id: '2', chat: 'c', text: 'hi' });
    await clock.sleep(30_000);
    await bot.stop();
  });

  expect(provider.sent.map(({ text }) => text)).toEqual(['ok']);
  expect((await mesh.inspect())[0]?.parked).toHaveLength(1);
});

test.each(['start', 'stop'] as const)(
  'a provider whose %s() never ends does not keep the bot from stopping',
  async (what) => {
    for (const exclusive of [false, true]) {
      const { clock, mesh, coordinator } = lab();
      const provider: Provider = {
        name: 'hangs',
        exclusive,
        start: () => {},
        stop: () => {},
        send: () => {},
        [what]: never,
      };
      const bot = new Bot({ provider, coordinator, clock, log: () => {} });
      await clock.run(async () => {
        void bot.start().catch(() => {});
        await clock.sleep(5_000);
        const beganMs = clock.monotonicMs();
        await bot.stop({ drainMs: 2_000 });

        expect(clock.monotonicMs() - beganMs).toBeLessThan(10_000);
      });
      expect((await mesh.inspect())[0]?.replicas).toEqual([]);
    }
  },
);

test('an exclusive provider that is slow to connect is closed when its replica lost the lead meanwhile', async () => {
  const { clock, mesh } = lab();
  let connections = 0;
  let most = 0;
  const make = (replicaId: string): { bot: Bot; coordinator: MemoryCoordinator } => {
    let isOpen = false;
    const provider: Provider = {
      name: 'poll',
      exclusive: true,
      async start() {
        await clock.sleep(60_000);
        isOpen = true;
        connections++;
      },
      stop() {
        if (isOpen) connections--;
        isOpen = false;
      },
      send: () => {},
    };
    const coordinator = new MemoryCoordinator({ mesh, replicaId });
    return { bot: new Bot({ provider, coordinator, clock, log: () => {} }), coordinator };
  };
  const [a, b] = [make('a'), make('b')];
  await clock.run(async () => {
    await a.bot.start();
    await clock.sleep(1_000);
    await b.bot.start();
    mesh.cut(a.coordinator);
    for (let n = 0; n < 200; n++) {
      await clock.sleep(1_000);
      most = Math.max(most, connections);
    }
    mesh.heal(a.coordinator);
    await clock.sleep(30_000);
    await Promise.all([a.bot.stop(), b.bot.stop()]);
  });

  expect(most).toBe(1);
  expect(connections).toBe(0);
});

test('many chats and schedules that wait, or wait for another attempt, at the same time are no leak to Node', async () => {
  const warned: string[] = [];
  const hear = (warning: Error) => warned.push(warning.name);
  process.on('warning', hear);
  const { clock, mesh } = lab();
  const coordinator = new MemoryCoordinator({ mesh, maxAttempts: 2 });
  const provider = new FakeProvider();
  const bot = new Bot({ provider, coordinator, clock, overlap: 'collect', retryDelayMs: 1_000, log: () => {} });
  for (let n = 0; n < 30; n++) bot.schedule({ everyMs: 60_000 }, `s${n}`, () => {});
  let handled = 0;
  bot.use(({ attempt }) => {
    if (attempt === 1) throw new Error('by chance');
    handled++;
  });
  await clock.run(async () => {
    await bot.start();
    await Promise.all(Array.from({ length: 30 }, (_, n) => provider.receive({ chat: `c${n}`, text: 'hi' })));
    await clock.sleep(10_000);
    await bot.stop();
  });
  await new Promise(setImmediate);
  process.off('warning', hear);

  expect(handled).toBe(30);
  expect(warned).toEqual([]);
});
