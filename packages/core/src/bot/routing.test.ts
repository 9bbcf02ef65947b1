import { afterEach, beforeEach, describe, expect, expectTypeOf, test, vi } from 'vitest';
import { type BotMesh, botMesh } from '../testing/bots.js';
import { FakeProvider } from '../testing/FakeProvider.js';
import { Bot } from './Bot.js';
import type { Matched } from './Context.js';
import { flow } from './flow.js';
import type { BotOptions } from './options.js';

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

describe('what is handled by what', () => {
  test('a string matches the whole text, without regard to case and space around it', async () => {
    const { provider } = await lab.alone((bot) => {
      bot.when('Hi', (ctx) => ctx.reply('Hello!'));
      bot.use((ctx) => ctx.reply('what?'));
    });

    for (const text of ['hi', '  HI\n', 'hi there']) await provider.receive({ chat: 'a', text });
    await provider.hasSent(3);

    expect(provider.textsTo('a')).toEqual(['Hello!', 'Hello!', 'what?']);
  });

  test('a RegExp leaves what it found in ctx.match, also when it is global', async () => {
    const { provider } = await lab.alone((bot) => {
      bot.when(/^add (\d+)$/g, (ctx) => {
        expectTypeOf(ctx.match).toExtend<Matched>();
        expectTypeOf(ctx.match).toExtend<Omit<RegExpExecArray, 'groups'>>();
        return ctx.reply(`added ${ctx.match[1]}`);
      });
    });

    await provider.receive({ chat: 'a', text: 'add 1' });
    await provider.receive({ chat: 'a', text: 'add 2' });
    await provider.hasSent(2);

    expect(provider.textsTo('a')).toEqual(['added 1', 'added 2']);
  });

  test('the first match wins, and a predicate may take its time', async () => {
    const { provider } = await lab.alone((bot) => {
      bot.when(
        async (ctx) => ctx.message.from === 'admin',
        (ctx) => ctx.reply('yes, master'),
      );
      bot.when(/hi/, (ctx) => ctx.reply('first'));
      bot.when('hi', (ctx) => ctx.reply('second'));
    });

    await provider.receive({ chat: 'a', text: 'hi' });
    await provider.receive({ chat: 'a', text: 'hi', from: 'admin' });
    await provider.hasSent(2);

    expect(provider.textsTo('a')).toEqual(['first', 'yes, master']);
  });

  test('middleware wraps what is registered after it', async () => {
    const seen: string[] = [];
    const { provider } = await lab.alone((bot) => {
      bot.use(async (_ctx, next) => {
        seen.push('before');
        await next();
        seen.push('after');
      });
      bot.when('hi', async (ctx) => {
        seen.push('handler');
        await ctx.reply('Hello!');
      });
    });

    await provider.receive({ chat: 'a', text: 'hi' });
    await vi.waitFor(() => expect(seen).toContain('after'));

    expect(seen).toEqual(['before', 'handler', 'after']);
  });

  test('calling next() twice fails the message with a MiddlewareError', async () => {
    const errors: unknown[] = [];
    const { provider } = await lab.alone(
      (bot) => {
        bot.use(async (_ctx, next) => {
          await next();
          await next();
        });
      },
      { maxAttempts: 1, onError: (error) => errors.push(error) },
    );

    await provider.receive({ chat: 'a', text: 'x' });
    await vi.waitFor(() => expect(errors).toHaveLength(1));

    expect(errors[0]).toMatchObject({ code: 'middleware' });
  });

  test('an error behind a next() that was not awaited fails the message', async () => {
    const errors: unknown[] = [];
    const { provider } = await lab.alone(
      (bot) => {
        bot.use((_ctx, next) => void next());
        bot.use(async () => {
          throw new Error('deep');
        });
      },
      { maxAttempts: 1, onError: (error) => errors.push(error) },
    );

    await provider.receive({ chat: 'a', text: 'x' });

    await vi.waitFor(() => expect(errors).toEqual([new Error('deep')]));
  });

  test('an error that middleware catches does not fail the message', async () => {
    const onError = vi.fn();
    const { provider } = await lab.alone(
      (bot) => {
        bot.use(async (ctx, next) => {
          try {
            await next();
          } catch {
            await ctx.reply('sorry');
          }
        });
        bot.use(async () => {
          throw new Error('deep');
        });
      },
      { onError },
    );

    await provider.receive({ chat: 'a', text: 'x' });
    await provider.hasSent(1);
    await provider.receive({ chat: 'a', text: 'y' });
    await provider.hasSent(2);

    expect(onError).not.toHaveBeenCalled();
  });

  test('options that cannot work are refused by name', () => {
    expect(() => new Bot({} as BotOptions)).toThrow(/no provider/);
    expect(() => new Bot({ provider: new FakeProvider(), retryDelayMs: -1 })).toThrow(/retryDelayMs/);
    const bot = new Bot({ provider: new FakeProvider() });
    expect(() => bot.when(1 as never, () => {})).toThrow(/bot\.when\(\)/);
    expect(() => bot.use({} as never)).toThrow(/bot\.use\(\)/);
    const a = flow('a').say('x');
    expect(() => bot.use(a).use(a)).toThrow(/flow 'a' already/);
  });
});
