import { afterEach, beforeEach, describe, expect, expectTypeOf, test, vi } from 'vitest';
import type { Bot } from '../bot/Bot.js';
import type { Context } from '../bot/Context.js';
import { flow } from '../bot/flow.js';
import { StaleFenceError } from '../errors.js';
import type { StateStore } from '../state/state-store.js';
import { type BotMesh, botMesh, gate } from '../testing/bots.js';

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

describe('state', () => {
  interface Counted {
    count?: number;
  }

  test('ctx.state is kept for the chat, and only saved when it changed', async () => {
    const { replica, sent, textsTo } = lab;
    const saves: unknown[] = [];
    const set = (bot: Bot) => {
      bot.when('look', (ctx) => ctx.reply(String(ctx.state.count)));
      bot.use((ctx: Context<Counted>) => {
        ctx.state.count = (ctx.state.count ?? 0) + 1;
        return ctx.reply(`${ctx.state.count}`);
      });
    };
    const entries = new Map<string, { value: unknown; fence: number }>();
    const state: StateStore = {
      load: async (key) => structuredClone(entries.get(key) ?? null),
      save: async (key, value, fence) => {
        saves.push(value);
        entries.set(key, structuredClone({ value, fence }));
      },
    };
    const a = await replica(set, { state });
    const b = await replica(set, { state });

    for (const [i, text] of ['+', '+', 'look', '+'].entries()) {
      await (i % 2 ? b : a).provider.receive({ chat: 'k', text });
    }
    await vi.waitFor(() => expect(sent).toHaveLength(4));

    expect(textsTo('k')).toEqual(['1', '2', '2', '3']);
    expect(saves).toHaveLength(3);
  });

  test('what a failed attempt changed is not saved', async () => {
    const { provider } = await lab.replica(
      (bot) => {
        bot.use(async (ctx: Context<Counted>) => {
          ctx.state.count = (ctx.state.count ?? 0) + 1;
          if (ctx.attempt === 1) throw new Error('once');
          await ctx.reply(`${ctx.state.count}`);
        });
      },
      { onError: () => {} },
    );

    await provider.receive({ chat: 'k', text: 'x' });
    await provider.hasSent(1);

    expect(provider.textsTo('k')).toEqual(['1']);
  });

  // C-12, C-16
  test('a flow goes on at another replica', async () => {
    const { replica, sent, textsTo } = lab;
    const set = (bot: Bot) =>
      bot.use(
        flow('signup')
          .ask('What is your name?', 'name')
          .say((_ctx, c) => {
            expectTypeOf(c.state.name).toEqualTypeOf<string>();
            return `Nice to meet you, ${c.state.name}!`;
          }),
      );
    const a = await replica(set);
    const b = await replica(set);

    await a.provider.receive({ chat: 'k', text: 'Signup' });
    await b.provider.receive({ chat: 'k', text: 'Ana' });
    await vi.waitFor(() => expect(sent).toHaveLength(2));

    expect(textsTo('k')).toEqual(['What is your name?', 'Nice to meet you, Ana!']);
  });

  // C-14, C-38
  test('a stale write is refused, and the message is handled again', async () => {
    const errors: unknown[] = [];
    let saves = 0;
    const state: StateStore = {
      load: async () => null,
      save: async (_key, _value, fence) => {
        saves++;
        if (saves === 1) throw new StaleFenceError(fence, fence + 1);
      },
    };
    const { provider } = await lab.replica(
      (bot) => {
        bot.use((ctx: Context<Counted>) => {
          ctx.state.count = 1;
          return ctx.reply(`attempt ${ctx.attempt}`);
        });
      },
      { state, onError: (error) => errors.push(error) },
    );

    await provider.receive({ chat: 'k', text: 'x' });
    await provider.hasSent(2);

    expect(provider.textsTo('k')).toEqual(['attempt 1', 'attempt 2']);
    expect(errors).toMatchObject([{ code: 'stale-fence' }]);
  });

  test('a message whose state was saved before the replica died is not handled a second time', async () => {
    const { replica, textsTo } = lab;
    const set = (bot: Bot) =>
      bot.use((ctx: Context<Counted>) => {
        ctx.state.count = (ctx.state.count ?? 0) + 1;
        return ctx.reply(`${ctx.message.text} is ${ctx.state.count}`);
      });
    const entries = new Map<string, { value: unknown; fence: number }>();
    let afterSave = () => {};
    const state: StateStore = {
      load: async (key) => structuredClone(entries.get(key) ?? null),
      save: async (key, value, fence) => {
        entries.set(key, structuredClone({ value, fence }));
        afterSave();
      },
    };
    const a = await replica(set, { state });
    await replica(set, { state });
    afterSave = () => {
      afterSave = () => {};
      a.coordinator.crash();
    };

    await a.provider.receive({ chat: 'k', text: 'x' });
    const b = await replica(set, { state });
    await b.provider.receive({ chat: 'k', text: 'y' });
    await vi.waitFor(() => expect(textsTo('k')).toContain('y is 2'));

    expect(textsTo('k')).toEqual(['x is 1', 'y is 2']);
  });

  test('a handler that ends after its turn was lost saves nothing', async () => {
    const { replica } = lab;
    const saves: number[] = [];
    const state: StateStore = { load: async () => null, save: async (_key, _value, fence) => void saves.push(fence) };
    const begun = gate();
    const after = gate();
    const fences: number[] = [];
    const a = await replica(
      (bot) =>
        bot.use(async (ctx: Context<Counted>) => {
          fences.push(ctx.turn.fence);
          ctx.state.count = 1;
          begun.open();
          await after.opened;
        }),
      { state },
    );
    const b = await replica(
      (bot) =>
        bot.use(async (ctx: Context<Counted>) => {
          fences.push(ctx.turn.fence);
          ctx.state.count = 2;
          after.open();
          await ctx.reply('b');
        }),
      { state },
    );

    await a.provider.receive({ chat: 'k', text: 'x' });
    await begun.opened;
    a.coordinator.crash();
    await b.provider.hasSent(1);
    await vi.waitFor(() => expect(saves).not.toEqual([]));
    await b.bot.stop();

    expect(fences[1]).toBeGreaterThan(fences[0] ?? 0);
    expect(saves).toEqual([fences[1]]);
  });

  const circle: unknown[] = [];
  circle.push(circle);
  test.each<[string, unknown]>([
    ['ctx.state.x is a function', () => {}],
    ['ctx.state.x is a symbol', Symbol('x')],
    ['ctx.state.x is a bigint', 1n],
    ['ctx.state.x is NaN', Number.NaN],
    ['ctx.state.x is Infinity', Number.POSITIVE_INFINITY],
    ['ctx.state.x is a Date', new Date(0)],
    ['ctx.state.x is a Map', new Map()],
    ['ctx.state.x.y[1] is undefined', { y: [1, undefined] }],
    ['ctx.state.x[0].y is a Set', [{ y: new Set() }]],
    ['in a circle', circle],
  ])('what JSON cannot hold is refused by its path, and not saved: %s', async (problem, value) => {
    const errors: unknown[] = [];
    const save = vi.fn(async () => {});
    const state: StateStore = { load: async () => null, save };
    const { provider } = await lab.alone((bot) => bot.use((ctx) => void Object.assign(ctx.state, { x: value })), {
      state,
      maxAttempts: 1,
      onError: (error) => errors.push(error),
    });

    await provider.receive({ chat: 'k', text: 'x' });

    await vi.waitFor(() => expect(errors).toMatchObject([{ code: 'bad-input' }]));
    expect(String(errors)).toContain(problem);
    expect(save).not.toHaveBeenCalled();
  });

  test.each([[[1]], ['s'], [null], [undefined], [new Map()]])(
    'only a plain object may take the place of ctx.state: not %j',
    async (value) => {
      const errors: unknown[] = [];
      const { provider } = await lab.alone((bot) => bot.use((ctx) => void Reflect.set(ctx, 'state', value)), {
        maxAttempts: 1,
        onError: (error) => errors.push(error),
      });

      await provider.receive({ chat: 'k', text: 'x' });

      await vi.waitFor(() => expect(errors).toMatchObject([{ code: 'bad-input' }]));
    },
  );

  test('an answer of a flow that JSON cannot hold is refused by its path', async () => {
    const errors: unknown[] = [];
    const { provider } = await lab.alone(
      (bot) =>
        bot.use(
          flow('book')
            .ask('When?', 'when', { parse: (text) => new Date(text) })
            .ask('Who?', 'who'),
        ),
      { maxAttempts: 1, onError: (error) => errors.push(error) },
    );

    await provider.receive({ chat: 'k', text: 'book' });
    await provider.receive({ chat: 'k', text: '2030-01-01' });

    await vi.waitFor(() => expect(errors).toMatchObject([{ code: 'bad-input' }]));
    expect(String(errors)).toContain('c.state.when is a Date');
  });

  test('every kind of JSON data comes back as it was, and a member that is undefined as one that is not there', async () => {
    const all = { a: [1, 'b', true, null, { c: [] }], d: { e: -1.5, f: false }, g: '' };
    const seen: unknown[] = [];
    const { provider } = await lab.alone((bot) => {
      bot.when('set', (ctx) => void Reflect.set(ctx, 'state', { ...structuredClone(all), h: undefined }));
      bot.when('get', (ctx) => {
        seen.push(structuredClone(ctx.state));
        ctx.state = {};
      });
    });

    for (const text of ['set', 'get', 'get']) await provider.receive({ chat: 'k', text });
    await vi.waitFor(() => expect(seen).toHaveLength(2));

    expect(seen).toStrictEqual([all, {}]);
  });
});
