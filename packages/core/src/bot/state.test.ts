import { afterEach, beforeEach, describe, expect, expectTypeOf, test, vi } from 'vitest';
import { z } from 'zod';
import { MemoryCoordinator } from '../coordination/MemoryCoordinator.js';
import { ConfigError } from '../errors.js';
import { MemoryStateStore } from '../state/MemoryStateStore.js';
import type { StandardSchema } from '../state/schema.js';
import type { StateStore } from '../state/state-store.js';
import { FakeProvider } from '../testing/FakeProvider.js';
import { MemoryMesh } from '../testing/MemoryMesh.js';
import { Bot } from './Bot.js';
import { flow } from './flow.js';
import type { StateOptions } from './options.js';

const unhandled = vi.fn();
const bots: Bot[] = [];

beforeEach(() => process.on('unhandledRejection', unhandled));
afterEach(async () => {
  // biome-ignore lint/suspicious/noExplicitAny: whatever their states are
  await Promise.all(bots.splice(0).map((bot: Bot<any, any, any>) => bot.stop({ drainMs: 0 })));
  process.off('unhandledRejection', unhandled);
  expect(unhandled).not.toHaveBeenCalled();
});

/** A replica on `store`, not started. */
function make<S extends object>(state: StateOptions<S, object, object>, mesh = new MemoryMesh()) {
  const provider = new FakeProvider();
  const errors: unknown[] = [];
  const coordinator = new MemoryCoordinator({ mesh, maxAttempts: 2 });
  const bot = new Bot({
    provider,
    coordinator,
    state,
    retryDelayMs: 0,
    log: () => {},
    onError: (error) => errors.push(error),
  });
  bots.push(bot as unknown as Bot);
  return { bot, provider, errors, mesh };
}

const counter = z.object({ count: z.number().default(0), names: z.array(z.string()).default([]) });

describe('state with a schema', () => {
  test('is typed by it, and a new chat begins with its defaults', async () => {
    const { bot, provider } = make({ schema: counter });
    bot.use(async (ctx) => {
      expectTypeOf(ctx.state.count).toEqualTypeOf<number>();
      expectTypeOf(ctx.state.names).toEqualTypeOf<string[]>();
      ctx.state.count += 1;
      ctx.state.names.push(ctx.message.text);
      await ctx.reply(`${ctx.state.count} ${ctx.state.names.join()}`);
    });
    await bot.start();

    for (const text of ['a', 'b']) await provider.receive({ chat: 'k', text });
    await provider.hasSent(2);

    expect(provider.textsTo('k')).toEqual(['1 a', '2 a,b']);
  });

  test('that does not fit when it is to be saved fails the message, by its path, and nothing is saved', async () => {
    const store = new MemoryStateStore();
    const { bot, errors, provider, mesh } = make({ schema: counter, store });
    bot.use((ctx) => {
      ctx.state.names = ['fine', 5 as unknown as string];
    });
    await bot.start();

    await provider.receive({ chat: 'k', text: 'secret' });
    await vi.waitFor(async () => expect((await mesh.inspect())[0]?.parked).toHaveLength(1));

    expect(errors[0]).toMatchObject({ code: 'invalid-state', path: 'ctx.state.names[1]', scope: 'ctx.state' });
    expect((errors[0] as Error).message).not.toContain('secret');
    expect(await store.load('k')).toBeNull();
  });

  test('that does not fit as stored reaches no handler, and the message is parked, not lost', async () => {
    const store = new MemoryStateStore();
    await store.save('k', { v: 1, data: { count: 'many' } }, 1);
    const { bot, errors, provider, mesh } = make({ schema: counter, store });
    const handle = vi.fn();
    bot.use(handle);
    await bot.start();

    await provider.receive({ chat: 'k', text: 'x' });
    await vi.waitFor(async () => expect((await mesh.inspect())[0]?.parked).toHaveLength(1));

    expect(errors).toMatchObject([{ path: 'ctx.state.count' }, { path: 'ctx.state.count' }]);
    expect(handle).not.toHaveBeenCalled();
    expect((await store.load('k'))?.value).toMatchObject({ data: { count: 'many' } });
  });

  test('a validator that takes its time is waited for', async () => {
    const slow: StandardSchema<{ n: number }> = {
      '~standard': {
        version: 1,
        vendor: 'test',
        validate: async (value) => {
          await new Promise(setImmediate);
          return { value: { n: 1, ...(value as object) } };
        },
      },
    };
    const { bot, provider } = make({ schema: slow });
    bot.use((ctx) => ctx.reply(`${ctx.state.n++}`));
    await bot.start();

    for (const text of ['a', 'b']) await provider.receive({ chat: 'k', text });
    await provider.hasSent(2);

    expect(provider.textsTo('k')).toEqual(['1', '2']);
  });

  test('a place in a flow is kept beside it', async () => {
    const { bot, provider } = make({ schema: counter });
    bot.use(
      flow('signup')
        .ask('Name?', 'name')
        .say((_ctx, c) => `Hello ${c.state.name}`),
    );
    await bot.start();

    for (const text of ['signup', 'Ana']) await provider.receive({ chat: 'k', text });
    await provider.hasSent(2);

    expect(provider.textsTo('k')).toEqual(['Name?', 'Hello Ana']);
  });
});

describe('state of an older version', () => {
  const two = z.object({ total: z.number().default(0) });
  const migrate = (old: unknown, from: number): unknown => ({ total: (old as { count: number }).count + from * 1_000 });

  test('is made new when it is read, and kept under its version when it is saved', async () => {
    const store = new MemoryStateStore();
    await store.save('k', { v: 1, data: { count: 5 }, version: 1 }, 1);
    await store.save('older', { v: 1, data: { count: 7 } }, 1);
    const { bot, provider } = make({ store, schema: two, version: 2, migrate });
    bot.when('look', (ctx) => ctx.reply(`${ctx.state.total}`));
    bot.use((ctx) => ctx.reply(`${++ctx.state.total}`));
    await bot.start();

    for (const text of ['look', '+', 'look']) await provider.receive({ chat: 'k', text });
    await provider.hasSent(3);
    await provider.receive({ chat: 'older', text: 'look' });
    await provider.hasSent(4);

    expect(provider.textsTo('k')).toEqual(['1005', '1006', '1006']);
    expect(provider.textsTo('older')).toEqual(['7']);
    expect((await store.load('k'))?.value).toMatchObject({ version: 2, data: { total: 1006 } });
  });

  test('what an older replica finds of a newer one is left as it is, and the message is not lost', async () => {
    const store = new MemoryStateStore();
    await store.save('k', { v: 1, data: { total: 5 }, version: 2 }, 1);
    const { bot, errors, provider, mesh } = make({ store, version: 1 });
    bot.use((ctx) => {
      Object.assign(ctx.state, { broken: true });
    });
    await bot.start();

    await provider.receive({ chat: 'k', text: 'x' });
    await vi.waitFor(() => expect(errors).toHaveLength(1));
    await vi.waitFor(async () => expect((await mesh.inspect())[0]?.queues).toHaveLength(1));

    expect((await mesh.inspect())[0]?.parked).toEqual([]);
    expect(errors).toMatchObject([{ code: 'newer-version', message: expect.stringContaining('Finish the rollout') }]);
    expect((await store.load('k'))?.value).toEqual({ v: 1, data: { total: 5 }, version: 2 });
  });

  test('also one whose bot keeps no versions, so that the version is not lost', async () => {
    const store = new MemoryStateStore();
    await store.save('k', { v: 1, data: { total: 5 }, version: 2 }, 1);
    const { bot, errors, provider } = make({ store });
    bot.use((ctx) => {
      Object.assign(ctx.state, { broken: true });
    });
    await bot.start();

    await provider.receive({ chat: 'k', text: 'x' });
    await vi.waitFor(() => expect(errors).toHaveLength(1));

    expect(errors[0]).toMatchObject({ code: 'newer-version', version: 2, known: 0 });
    expect((await store.load('k'))?.value).toEqual({ v: 1, data: { total: 5 }, version: 2 });
  });

  test('a migration that throws fails the message, and changes nothing', async () => {
    const store = new MemoryStateStore();
    await store.save('k', { v: 1, data: {}, version: 1 }, 1);
    const { bot, errors, provider } = make({
      store,
      version: 2,
      migrate: () => {
        throw new Error('cannot');
      },
    });
    await bot.start();

    await provider.receive({ chat: 'k', text: 'x' });
    await vi.waitFor(() => expect(errors).toHaveLength(2));

    expect(errors).toMatchObject([{ message: 'cannot' }, { message: 'cannot' }]);
  });
});

describe('what cannot work is refused', () => {
  const untyped = (value: unknown): never => value as never;
  const made = (state: object): string => {
    try {
      new Bot({ provider: new FakeProvider(), log: () => {}, state: untyped(state) });
    } catch (error) {
      expect(error).toBeInstanceOf(ConfigError);
      return (error as Error).message;
    }
    throw new Error('It was taken.');
  };

  test('a schema, a version, a migration or a store that is none', () => {
    expect(made({ schema: {} })).toMatch(/state: schema is none/);
    expect(made({ version: 0 })).toMatch(/state: version is 0/);
    expect(made({ version: 2 })).toMatch(/no migrate to make it of version 1/);
    expect(made({ migrate: () => {} })).toMatch(/migrate without a version/);
    expect(made({ version: 2, migrate: 'x' })).toMatch(/migrate is no function/);
    expect(made({ store: {} })).toMatch(/state\.store is an object without load\(\)/);
    expect(made({ shcema: counter })).toMatch(/Bot: state: there is no option 'shcema'/);
    expect(made({ user: { schema: 1 } })).toMatch(/state\.user: schema is none/);
    expect(made({ global: { versoin: 1 } })).toMatch(/state\.global: there is no option 'versoin'/);
  });

  test('at the start a schema that a new chat cannot begin with', async () => {
    const { bot } = make({ schema: z.object({ name: z.string() }) });

    await expect(bot.start()).rejects.toMatchObject({
      code: 'config',
      message: expect.stringMatching(/refuses \{\}.*at ctx\.state\.name/),
    });
  });
});

test('a store given alone, as before, and in state are the same', async () => {
  const saved: string[] = [];
  const store: StateStore = { load: async () => null, save: async (key) => void saved.push(key) };
  const provider = new FakeProvider();
  for (const state of [store, { store }]) {
    const bot = new Bot({ provider, state, log: () => {} });
    bots.push(bot as unknown as Bot);
    bot.use((ctx) => {
      Object.assign(ctx.state, { n: 1 });
    });
    await bot.start();
    const before = saved.length;
    await provider.receive({ chat: 'k', text: 'x' });
    await vi.waitFor(() => expect(saved.length).toBe(before + 1));
    await bot.stop();
  }

  expect(saved).toEqual(['k', 'k']);
});

test('a schema that gives no object fails the message that would save it, and the chat goes on', async () => {
  const schema = {
    '~standard': { version: 1, vendor: 'own', validate: (value: object) => ({ value: 'n' in value ? 5 : {} }) },
  } as unknown as StandardSchema<{ n?: number }>;
  const { bot, provider, errors } = make({ schema });
  bot.when('bad', (ctx) => {
    ctx.state.n = 1;
  });
  bot.when('good', (ctx) => ctx.reply('fine'));
  await bot.start();

  await provider.receive({ chat: 'ana', text: 'bad' });
  await provider.receive({ chat: 'ana', text: 'good' });
  await provider.hasSent(1);

  expect(errors[0]).toMatchObject({ code: 'invalid-state', issues: [{ message: expect.stringContaining('object') }] });
});
