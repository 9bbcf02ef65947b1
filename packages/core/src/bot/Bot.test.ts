import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { MemoryCoordinator } from '../coordination/MemoryCoordinator.js';
import { CoordinationUnavailableError } from '../errors.js';
import { type BotMesh, botMesh, echo, gate } from '../testing/bots.js';
import { FakeProvider } from '../testing/FakeProvider.js';
import { Bot } from './Bot.js';

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

describe('stop', () => {
  test('running turns end, nothing new is taken in, and what waits goes to another replica', async () => {
    const { replica, sent, textsTo } = lab;
    const begun = gate();
    const after = gate();
    const a = await replica((bot) =>
      bot.use(async (ctx) => {
        begun.open();
        await after.opened;
        await ctx.reply(`a: ${ctx.message.text}`);
      }),
    );
    await replica((bot) => bot.use((ctx) => ctx.reply(`b: ${ctx.message.text} (attempt ${ctx.attempt})`)));

    await a.provider.receive({ chat: 'k', text: '1' });
    await a.provider.receive({ chat: 'k', text: '2' });
    await begun.opened;
    const stopped = a.bot.stop();
    await vi.waitFor(() => expect(a.provider.calls).toContain('stop'));
    await expect(a.provider.receive({ chat: 'k', text: '3' })).rejects.toMatchObject({ code: 'not-started' });
    after.open();
    await stopped;
    await vi.waitFor(() => expect(sent).toHaveLength(2));

    expect(textsTo('k')).toEqual(['a: 1', 'b: 2 (attempt 1)']);
    expect(a.provider.calls).toEqual(['start', 'stop', 'close']);
  });

  test('at the deadline the rest is aborted with the reason stopped, and handled elsewhere', async () => {
    const { replica, sent, textsTo } = lab;
    const reasons: unknown[] = [];
    const begun = gate();
    const a = await replica((bot) =>
      bot.use(async (ctx) => {
        begun.open();
        await new Promise<void>((resolve) => ctx.signal.addEventListener('abort', () => resolve()));
        reasons.push(ctx.signal.reason);
      }),
    );
    await replica(echo);

    await a.provider.receive({ chat: 'k', text: '1' });
    await begun.opened;
    await a.bot.stop({ drainMs: 20 });
    await vi.waitFor(() => expect(sent).toHaveLength(1));

    expect(reasons).toMatchObject([{ code: 'lease-lost', reason: 'stopped' }]);
    expect(textsTo('k')).toEqual(['echo 1']);
  });

  test('a bot alone answers what it took in before it stops', async () => {
    const { bot, provider } = await lab.alone((b) =>
      b.use(async (ctx) => {
        await new Promise((resolve) => setTimeout(resolve, 5));
        await ctx.reply(ctx.message.text);
      }),
    );

    for (let i = 0; i < 10; i++) void provider.receive({ chat: 'k', text: `${i}` });
    await bot.stop();

    expect(provider.textsTo('k')).toEqual([...Array(10).keys()].map(String));
  });

  test('stop is idempotent, works before start, and ends start', async () => {
    const bot = new Bot({ provider: new FakeProvider(), log: () => {} });

    await Promise.all([bot.stop(), bot.stop()]);

    await expect(bot.start()).rejects.toMatchObject({ code: 'stopped' });
    const { bot: other } = await lab.alone(echo);
    await other.start();
    await other.stop();
    await expect(other.start()).rejects.toMatchObject({ code: 'stopped' });
    expect(() => bot.stop({ drainMs: -1 })).toThrow(/drainMs/);
  });

  test('a provider that fails to start stops the bot, with its own error', async () => {
    const provider = new FakeProvider();
    provider.start = () => {
      throw new Error('no token');
    };
    const { mesh } = lab;
    const bot = new Bot({ provider, coordinator: new MemoryCoordinator({ mesh }), log: () => {} });

    await expect(bot.start()).rejects.toThrow('no token');

    const [view] = await mesh.inspect();
    expect(view?.replicas).toEqual([]);
  });
});

describe('http', () => {
  const post = (message: object) => new Request('http://bot/in', { method: 'POST', body: JSON.stringify(message) });
  const get = (path: string) => new Request(`http://bot${path}`);

  test('probes tell whether it runs and whether it is ready', async () => {
    const { bot } = await lab.alone(echo);
    const fresh = new Bot({ provider: new FakeProvider(), log: () => {} });

    expect((await fresh.webhook(get('/livez'))).status).toBe(200);
    expect((await fresh.webhook(get('/readyz'))).status).toBe(503);
    expect((await bot.webhook(get('/api/readyz'))).status).toBe(200);
    await bot.stop();
    expect((await bot.webhook(get('/readyz'))).status).toBe(503);
    expect((await bot.webhook(get('/livez'))).status).toBe(200);
  });

  test('a provider without webhook is not found; one that throws answers 500', async () => {
    const { bot } = await lab.alone(echo);
    expect((await bot.webhook(post({}))).status).toBe(404);

    const provider = new FakeProvider({ webhook: true });
    const { bot: other } = await lab.alone(echo, { provider, onError: () => {} });
    expect((await other.webhook(new Request('http://bot/', { method: 'POST', body: '{' }))).status).toBe(500);
  });

  // C-60
  test('a webhook on a coordinator in memory warns loudly at start, and a bot alone says so', async () => {
    await lab.alone(echo, { provider: new FakeProvider({ webhook: true }) });
    const [warning] = lab.log;
    await lab.alone(echo);

    expect(warning).toMatch(/WARNING.*out of order/);
    // It names what there is.
    expect(warning).toMatch(/RedisCoordinator of @botmesh\/redis, SqliteCoordinator of @botmesh\/sqlite/);
    expect(warning).not.toMatch(/postgres|nats/);
    expect(lab.log.join()).toMatch(/runs alone/);
  });

  // C-76
  test('an unreachable backend refuses messages as unavailable, and readiness follows it', async () => {
    lab = botMesh({ leaseMs: 900 });
    const { replica, mesh } = lab;
    const { provider, bot, coordinator } = await replica(echo);

    mesh.cut(coordinator);
    const lost = provider.receive({ chat: 'k', id: '1', text: 'x' });
    await expect(lost).rejects.toBeInstanceOf(CoordinationUnavailableError);
    await vi.waitFor(async () => expect((await bot.webhook(get('/readyz'))).status).toBe(503), { timeout: 3000 });
    mesh.heal(coordinator);
    await vi.waitFor(async () => expect((await bot.webhook(get('/readyz'))).status).toBe(200), { timeout: 3000 });
    await provider.receive({ chat: 'k', id: '1', text: 'x' });
    await provider.hasSent(1);
  });
});

test('a log that throws, a hook that rejects and a handler that throws nothing harm nobody', async () => {
  const { provider } = await lab.alone(
    (bot) => {
      bot.when('bad', () => Promise.reject(undefined as unknown as Error));
      bot.when('odd', (ctx) => ctx.reply(7 as never));
      bot.use((ctx) => ctx.reply('fine'));
    },
    {
      maxAttempts: 1,
      log: () => {
        throw new Error('log');
      },
    },
  );

  await provider.receive({ chat: 'k', text: 'bad' });
  await provider.receive({ chat: 'k', text: 'odd' });
  await provider.receive({ chat: 'k', text: 'good' });
  await provider.hasSent(1);

  expect(provider.textsTo('k')).toEqual(['fine']);
});
