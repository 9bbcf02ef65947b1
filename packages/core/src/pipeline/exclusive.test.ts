import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { Bot } from '../bot/Bot.js';
import { MemoryCoordinator } from '../coordination/MemoryCoordinator.js';
import { type BotMesh, botMesh, echo } from '../testing/bots.js';
import { FakeProvider } from '../testing/FakeProvider.js';

let lab: BotMesh;
const unhandled = vi.fn();

beforeEach(() => {
  lab = botMesh();
  process.on('unhandledRejection', unhandled);
});

afterEach(async () => {
  await lab.close();
  process.off('unhandledRejection', unhandled);
  expect(unhandled).not.toHaveBeenCalled();
});

describe('an exclusive provider', () => {
  // C-40, C-42, C-47
  test('only one replica connects; its successor does when it has closed the connection and left', async () => {
    const order: string[] = [];
    const make = async (name: string) => {
      const provider = new FakeProvider({ exclusive: true });
      const tell = (what: string) => order.push(`${name} ${what}`);
      const start = provider.start.bind(provider);
      provider.start = (intake) => {
        tell('starts');
        return start(intake);
      };
      provider.close = () => void tell('closes');
      const coordinator = new MemoryCoordinator({ mesh: lab.mesh, leaseMs: lab.leaseMs });
      const { bot } = await lab.alone(echo, { provider, coordinator });
      return { provider, bot };
    };
    const a = await make('a');
    await vi.waitFor(() => expect(a.provider.isStarted).toBe(true));
    const b = await make('b');

    await a.provider.receive({ chat: 'k', text: 'x' });
    await a.provider.hasSent(1);
    expect(b.provider.isStarted).toBe(false);
    await a.bot.stop();
    await vi.waitFor(() => expect(b.provider.isStarted).toBe(true));

    expect(order).toEqual(['a starts', 'a closes', 'b starts']);
  });

  // C-46
  test('a former leader’s messages are refused', async () => {
    const coordinator = new MemoryCoordinator({ mesh: lab.mesh, leaseMs: lab.leaseMs });
    const provider = new FakeProvider({ exclusive: true });
    provider.stop = () => new Promise(() => {});
    let intake: Parameters<FakeProvider['start']>[0] = () => Promise.reject(new Error('not started'));
    provider.start = (take) => {
      intake = take;
    };
    const bot = new Bot({ provider, coordinator, log: () => {} });
    await bot.start();
    await vi.waitFor(async () => expect(await intake({ chat: 'k', text: 'x' })).toBe('accepted'));

    coordinator.crash();

    await expect(intake({ chat: 'k', text: 'y' })).rejects.toMatchObject({ code: 'lease-lost' });
  });

  // C-53
  test('a replica without the connection says standby and takes no messages over', async () => {
    const { mesh, leaseMs } = lab;
    const make = async () => {
      const provider = new FakeProvider({ exclusive: true });
      const coordinator = new MemoryCoordinator({ mesh, leaseMs });
      const { bot } = await lab.alone(echo, { provider, coordinator });
      return { provider, coordinator, bot };
    };
    const health = async (bot: Bot) => (await (await bot.webhook(new Request('http://bot/readyz'))).json()) as unknown;
    const a = await make();
    await vi.waitFor(() => expect(a.provider.isStarted).toBe(true));
    const b = await make();
    const c = await make();

    expect(await health(a.bot)).toEqual({ status: 'ready' });
    expect(await health(b.bot)).toEqual({ status: 'standby' });
    a.provider.onSend = () => new Promise(() => {});
    await a.provider.receive({ chat: 'k', text: 'x' });
    a.coordinator.crash();
    await vi.waitFor(() => expect(b.provider.sent).toHaveLength(1));

    expect(c.provider.calls).toEqual([]);
    expect(await health(b.bot)).toEqual({ status: 'ready' });
  });

  // C-44
  test('a provider that cannot connect is told of, and lets another replica lead', async () => {
    const { mesh, leaseMs } = lab;
    const errors: unknown[] = [];
    const bad = new FakeProvider({ exclusive: true });
    bad.start = () => {
      throw new Error('409');
    };
    await lab.alone(echo, {
      provider: bad,
      coordinator: new MemoryCoordinator({ mesh, leaseMs }),
      onError: (error) => errors.push(error),
    });
    const good = new FakeProvider({ exclusive: true });
    await lab.alone(echo, { provider: good, coordinator: new MemoryCoordinator({ mesh, leaseMs }) });
    await vi.waitFor(() => expect(good.isStarted).toBe(true));

    expect(errors).toEqual([new Error('409')]);
    expect(bad.calls).toEqual(['stop', 'close']);
  });
});
