import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { MemoryCoordinator } from '../coordination/MemoryCoordinator.js';
import type { Coordinator } from '../coordination/types.js';
import { type BotMesh, botMesh, gate } from '../testing/bots.js';
import { FakeProvider } from '../testing/FakeProvider.js';
import { Bot } from './Bot.js';
import type { BotOptions } from './options.js';

let lab: BotMesh;

beforeEach(() => {
  lab = botMesh();
});

afterEach(async () => {
  await lab.close();
});

describe('a bot alone', () => {
  test('collects within its process, and stops when all is handled', async () => {
    const { bot, provider } = await lab.alone(
      (b) => b.use((ctx) => ctx.reply(ctx.messages.map(({ text }) => text).join('+'))),
      { overlap: { mode: 'collect', quietMs: 30 } },
    );
    const ends: string[] = [];
    bot.on('ended', ({ id, how, by }) => ends.push(`${id} ${how} ${by?.id ?? ''}`.trim()));

    for (const id of ['1', '2', '3']) await provider.receive({ chat: 'k', id, text: id });
    await bot.stop();

    expect(provider.textsTo('k')).toEqual(['1+2+3']);
    expect(ends).toEqual(['1 merged 3', '2 merged 3', '3 handled']);
  });

  test.each(['serial', 'interrupt'] as const)('is cancelled and steered, with overlap %s', async (overlap) => {
    const begun = gate();
    const heard: unknown[] = [];
    const { bot, provider } = await lab.alone(
      (b) =>
        b.use(async (ctx) => {
          ctx.onSteer((payload) => heard.push(payload));
          begun.open();
          await new Promise((_, reject) => ctx.signal.addEventListener('abort', () => reject(ctx.signal.reason)));
        }),
      { overlap },
    );
    const ends: string[] = [];
    bot.on('ended', ({ how }) => ends.push(how));
    await provider.receive({ chat: 'k', id: '1', text: 'x' });
    await begun.opened;

    expect(await bot.steer('k', { left: 3 })).toBe(true);
    await vi.waitFor(() => expect(heard).toEqual([{ left: 3 }]));
    expect(await bot.cancel('k')).toBe(true);
    await vi.waitFor(() => expect(ends).toEqual(['cancelled']));
    expect(await bot.cancel('k')).toBe(false);
    expect(await bot.cancel('nobody')).toBe(false);
  });

  test('gives a message up after maxAttempts, and says so', async () => {
    const { bot, provider } = await lab.alone(
      (b) =>
        b.use(() => {
          throw new Error('no');
        }),
      { maxAttempts: 2, onError: () => {} },
    );
    const ends: unknown[] = [];
    bot.on('ended', (ended) => ends.push(ended));

    await provider.receive({ chat: 'k', id: '1', text: 'x' });

    await vi.waitFor(() => expect(ends).toMatchObject([{ id: '1', how: 'dropped', reason: 'it failed 2 times' }]));
    await expect(bot.parked()).rejects.toMatchObject({ code: 'config' });
  });
});

describe('what cannot work is refused by name', () => {
  /** As somebody's own coordinator, which keeps no messages. */
  const plain = (): Coordinator => {
    const inner = new MemoryCoordinator();
    return {
      replicaId: inner.replicaId,
      start: () => inner.start(),
      stop: () => inner.stop(),
      reserve: (key) => inner.reserve(key),
      acquireTurn: (ticket, options) => inner.acquireTurn(ticket, options),
      lead: (name, options) => inner.lead(name, options),
      tryLead: (name) => inner.tryLead(name),
      on: (event, listener) => inner.on(event, listener),
    };
  };

  const bad: [Partial<BotOptions>, RegExp][] = [
    [{ overlap: 'latest', coordinator: plain() }, /overlap needs a coordinator with a mailroom/],
    [{ overlap: 'parallel' as never }, /overlap: expected one of/],
    [{ graceMs: -1 }, /graceMs is -1/],
    [{ maxProgressMs: Number.NaN }, /maxProgressMs is NaN/],
    [{ onUnavailable: 'panic' as never }, /onUnavailable is panic/],
    [{ onUnknownSend: 'hope' as never }, /onUnknownSend is hope/],
    [{ rates: { account: { perSecond: 0 } } }, /rates.account.perSecond is 0/],
    [{ rates: { chat: { perSecond: 1, burst: 0 } } }, /rates.chat.burst is 0/],
    [{ rates: { user: { perSecond: 1 } } as never }, /no option 'user'/],
    [{ onRejected: 'no' as never }, /onRejected is a string/],
  ];
  test.each(bad)('%o', (options, message) => {
    expect(() => new Bot({ provider: new FakeProvider(), log: () => {}, ...options })).toThrow(message);
  });

  test('an event that does not exist, and a listener that is none', () => {
    const bot = new Bot({ provider: new FakeProvider(), log: () => {} });

    expect(() => bot.on('end' as never, () => {})).toThrow(/no event 'end'/);
    expect(() => bot.on('ended', 7 as never)).toThrow(/expected a function/);
  });
});
