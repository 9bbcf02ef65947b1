import { describe, expect, test } from 'vitest';
import { MemoryCoordinator } from '../coordination/MemoryCoordinator.js';
import { ConfigError } from '../errors.js';
import { FakeProvider } from '../testing/FakeProvider.js';
import { MemoryMesh } from '../testing/MemoryMesh.js';
import { Bot } from './Bot.js';
import { flow } from './flow.js';
import type { BotOptions } from './options.js';

/** As somebody without types would write it. */
const untyped = (value: unknown): never => value as never;

function problem(act: () => unknown): string {
  try {
    act();
  } catch (error) {
    expect(error).toBeInstanceOf(ConfigError);
    return (error as Error).message;
  }
  throw new Error('It was taken.');
}

const made = (options: object): string =>
  problem(() => new Bot({ provider: new FakeProvider(), log: () => {}, ...options } as BotOptions));

describe('what cannot work is refused where it is written', () => {
  test('a provider that was not called', () => {
    expect(made({ provider: function terminal() {} })).toMatch(
      /Did you forget \(\)\? Pass terminal\(\), not terminal\./,
    );
    expect(made({ provider: 'terminal' })).toMatch(/no provider, but a string/);
    expect(made({ provider: { start() {} } })).toMatch(/no provider, but an object/);
  });

  test('a coordinator that is none', () => {
    expect(made({ coordinator: {} })).toMatch(/coordinator is an object without start\(\)/);
    expect(made({ coordinator: null })).toMatch(/coordinator is null/);
    expect(made({ coordinator: MemoryCoordinator })).toMatch(/coordinator is a function or a class.*new/);
    expect(made({ coordinator: 'redis://x' })).toMatch(/coordinator is a string/);
  });

  test('a state store, a hook or a log that is none', () => {
    expect(made({ state: new Map() })).toMatch(/state is a Map without load\(\)/);
    expect(made({ onError: 'x' })).toMatch(/onError is a string/);
    expect(made({ log: console })).toMatch(/log is/);
    expect(problem(() => new Bot({ provider: new FakeProvider() }).onError(untyped('x')))).toMatch(/bot\.onError\(\)/);
  });

  test('an option that does not exist', () => {
    expect(made({ maxRetries: 3 })).toMatch(/no option 'maxRetries'. There are provider, coordinator,/);
  });

  test('a number that is a text', () => {
    for (const name of ['retryDelayMs', 'maxTurnMs', 'maxProgressMs', 'graceMs', 'maxAttempts']) {
      expect(made({ [name]: '100' })).toMatch(new RegExp(`${name} is a string of 3 characters`));
    }
    expect(made({ overlap: { mode: 'collect', quietMs: '5' } })).toMatch(/quietMs is a string of 1 characters/);
    expect(made({ rates: { chat: { perSecond: '5' } } })).toMatch(/rates\.chat\.perSecond is a string/);
    expect(made({ rates: { chat: { perSecond: 5, burst: '5' } } })).toMatch(/rates\.chat\.burst is a string/);
  });

  test('an option of stop() or broadcast() that does not exist', async () => {
    const bot = new Bot({ provider: new FakeProvider(), log: () => {} });
    await bot.start();

    expect(problem(() => bot.stop(untyped({ drain: 5 })))).toMatch(/bot\.stop\(\): there is no option 'drain'/);
    expect(() => bot.stop(untyped({ drainMs: '5' }))).toThrow(/drainMs is a string of 1 characters/);
    await expect(bot.broadcast(['k'], 'x', untyped({ id: 'b', pase: 1 }))).rejects.toThrow(/no option 'pase'/);
    await expect(bot.broadcast(['k'], 'x', untyped({ id: 'b', pace: 1 }))).rejects.toThrow(/pace is .*a function/);

    await bot.stop();
  });

  test('a clock that is none, a list in place of options, a limit that is no number', () => {
    const bot = new Bot({ provider: new FakeProvider(), log: () => {} });

    expect(made({ clock: {} })).toMatch(/clock is an object without monotonicMs\(\)/);
    expect(made({ clock: null })).toMatch(/clock is null/);
    expect(made({ rates: [] })).toMatch(/rates: expected an object of options, found a list/);
    for (const maxRunMs of [Symbol('x'), 5n, true]) {
      const options = untyped({ maxRunMs });
      expect(problem(() => bot.schedule({ everyMs: 1_000 }, 'a', () => {}, options))).toMatch(/maxRunMs is/);
    }
    expect(() => bot.stop(untyped({ drainMs: null }))).toThrow(/drainMs is null/);
    expect(problem(() => bot.handleSignals({ signals: [] }))).toMatch(/signals is no list of names/);
    expect(problem(() => flow('a').ask('Name?', ''))).toMatch(/key for the answer second, found an empty one/);
  });

  test('a reason that is no text', async () => {
    const bot = new Bot({ provider: new FakeProvider(), log: () => {} });
    await bot.start();

    await expect(bot.cancel('k', untyped({ why: 'secret' }))).rejects.toThrow(/reason, found an object/);

    await bot.stop();
  });

  test('a chat that is no name', async () => {
    const bot = new Bot({ provider: new FakeProvider(), log: () => {} });
    await bot.start();

    for (const chat of [undefined, 5, '']) {
      await expect(bot.cancel(untyped(chat))).rejects.toMatchObject({ code: 'bad-input' });
      await expect(bot.steer(untyped(chat), {})).rejects.toMatchObject({ code: 'bad-input' });
    }

    await bot.stop();
  });

  test('steps of a flow that say or do nothing', () => {
    const a = flow('a');

    expect(problem(() => a.say(untyped(5)))).toMatch(/flow\('a'\)\.say\(\).*found number/);
    expect(problem(() => a.say(untyped(undefined)))).toMatch(/say\(\).*found undefined/);
    expect(problem(() => a.ask(untyped(null), 'k'))).toMatch(/ask\(\).*found null/);
    expect(problem(() => a.ask('q', untyped(undefined)))).toMatch(/ask\(\): expected a key/);
    expect(problem(() => a.ask('q', 'k', untyped({})))).toMatch(/parse/);
    expect(problem(() => a.ask('q', 'k', { parse: Number, again: untyped(1) }))).toMatch(/ask\(\).*found number/);
    expect(problem(() => a.do(untyped('x')))).toMatch(/do\(\): expected a function/);
    expect(problem(() => flow('a', { cancel: untyped(1) }))).toMatch(/cancel/);
    expect(problem(() => flow('a', untyped({ canceled: 'x' })))).toMatch(/flow\('a'\): there is no option 'canceled'/);
    expect(problem(() => new Bot({ provider: new FakeProvider() }).use(a))).toMatch(/flow 'a' has no steps/);
  });
});

test.each(['alone', 'with a coordinator'])(
  'calls before start() and after stop() say so of the bot, %s',
  async (how) => {
    const coordinator = new MemoryCoordinator({ mesh: new MemoryMesh() });
    const options = { provider: new FakeProvider(), log: () => {} };
    const bot = new Bot(how === 'alone' ? options : { ...options, coordinator });
    const calls = [() => bot.cancel('k'), () => bot.steer('k', {}), () => bot.broadcast(['k'], 'x', { id: 'b' })];

    for (const call of calls) {
      await expect(call()).rejects.toMatchObject({ code: 'not-started', message: expect.stringContaining('The bot ') });
    }
    await bot.start();
    await bot.stop();
    for (const call of calls) {
      await expect(call()).rejects.toMatchObject({ code: 'stopped', message: expect.stringContaining('The bot ') });
    }
  },
);

test('a second Bot on the same coordinator is refused at its start, and disturbs the first one in nothing', async () => {
  const coordinator = new MemoryCoordinator({ mesh: new MemoryMesh() });
  const provider = new FakeProvider();
  const options = { coordinator, log: () => {} };
  const first = new Bot({ ...options, provider }).use((ctx) => ctx.reply(ctx.message.text));
  const second = new Bot({ ...options, provider: new FakeProvider() });
  await first.start();

  await expect(second.start()).rejects.toThrow(/another Bot runs on this coordinator/);
  await second.stop();
  await new Bot({ ...options, provider: new FakeProvider() }).stop();

  await provider.receive({ chat: 'k', text: 'x' });
  await provider.hasSent(1);
  await first.stop();
  const third = new Bot({ ...options, provider: new FakeProvider() });
  await third.start();
  await third.stop();
});
