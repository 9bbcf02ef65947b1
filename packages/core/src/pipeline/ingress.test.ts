import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import type { Bot } from '../bot/Bot.js';
import { MemoryCoordinator } from '../coordination/MemoryCoordinator.js';
import type { Coordinator, Ticket } from '../coordination/types.js';
import { DeliveryError } from '../errors.js';
import { type BotMesh, botMesh, echo, gate } from '../testing/bots.js';

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

describe('order and duplicates', () => {
  // C-23
  test('a message’s place is fixed by the call, whatever comes after', async () => {
    const { replica, textsTo, sent } = lab;
    const a = await replica(echo);
    const b = await replica(echo);

    const taken = [];
    for (let i = 0; i < 20; i++) taken.push((i % 2 ? a : b).provider.receive({ chat: 'k', text: `${i}` }));
    await Promise.all(taken);
    await vi.waitFor(() => expect(sent).toHaveLength(20));

    const evens = textsTo('k').filter((text) => Number(text.slice(5)) % 2 === 0);
    const odds = textsTo('k').filter((text) => Number(text.slice(5)) % 2 === 1);
    expect(evens).toEqual([...Array(10).keys()].map((i) => `echo ${2 * i}`));
    expect(odds).toEqual([...Array(10).keys()].map((i) => `echo ${2 * i + 1}`));
  });

  test('the place is taken before intake returns, with nothing awaited', async () => {
    const { replica } = lab;
    const { provider, coordinator } = await replica(echo);
    const accept = vi.spyOn(coordinator, 'accept');

    const taken = provider.receive({ chat: 'k', text: 'x' });

    expect(accept).toHaveBeenCalledOnce();
    await taken;
  });

  // C-64
  test('a message is acknowledged before its handler has ended', async () => {
    const { opened, open } = gate();
    const { replica } = lab;
    const { provider } = await replica((bot) =>
      bot.use(async (ctx) => {
        await opened;
        await ctx.reply('done');
      }),
    );

    expect(await provider.receive({ chat: 'k', id: '1', text: 'x' })).toBe('accepted');
    expect(provider.sent).toHaveLength(0);
    open();
    await provider.hasSent(1);
  });

  // C-57, C-62
  test.each(['a shared', 'no'])('a redelivery is a duplicate and handled once, with %s coordinator', async (kind) => {
    const handled: string[] = [];
    const set = (bot: Bot) => bot.use((ctx) => void handled.push(ctx.message.text));
    const { provider } = kind === 'no' ? await lab.alone(set) : await lab.replica(set);

    expect(await provider.receive({ chat: 'k', id: '1', text: 'x' })).toBe('accepted');
    expect(await provider.receive({ chat: 'k', id: '1', text: 'x' })).toBe('duplicate');
    expect(await provider.receive({ chat: 'other', id: '1', text: 'z' })).toBe('accepted');
    await provider.receive({ chat: 'k', id: '2', text: 'y' });
    await vi.waitFor(() => expect(handled).toContain('y'));

    expect(handled.sort()).toEqual(['x', 'y', 'z']);
  });

  test('replies of a chat leave in order, awaited or not', async () => {
    const { provider } = await lab.alone((bot) =>
      bot.use((ctx) => {
        void ctx.reply('one');
        void ctx.reply('two');
        void ctx.reply('three');
      }),
    );
    let delayMs = 30;
    provider.onSend = async () => {
      delayMs -= 10;
      await new Promise((resolve) => setTimeout(resolve, delayMs));
    };

    await provider.receive({ chat: 'k', text: 'x' });
    await provider.hasSent(3);

    expect(provider.textsTo('k')).toEqual(['one', 'two', 'three']);
  });

  // C-67
  test('a reply that the platform puts off is waited for by later ones of the chat only', async () => {
    const { provider } = await lab.alone(echo);
    let isPutOff = true;
    provider.onSend = (chat) => {
      if (chat !== 'k' || !isPutOff) return;
      isPutOff = false;
      throw new DeliveryError('slow down', { retryAfterMs: 50 });
    };

    await provider.receive({ chat: 'k', text: '1' });
    await provider.receive({ chat: 'k', text: '2' });
    await provider.receive({ chat: 'other', text: '3' });
    await provider.hasSent(3);

    expect(provider.sent.map((sent) => sent.text)).toEqual(['echo 3', 'echo 1', 'echo 2']);
  });

  test.each([
    [{ chat: '', text: 'x' }, /message\.chat/],
    [{ chat: 'k', text: 7 }, /message\.text/],
    [{ chat: 'k', text: 'x', id: '' }, /message\.id/],
    [{ chat: 'k', text: 'x', raw: 1n }, /message\.raw/],
  ])('a message that can never be stored is refused by field: %o', async (message, field) => {
    const { provider } = await lab.replica(echo);

    await expect(provider.receive(message as never)).rejects.toThrow(field);
  });
});

describe('a coordinator that keeps no messages', () => {
  /** Only the plain contract of a MemoryCoordinator. */
  function plain(inner: MemoryCoordinator): Coordinator {
    return {
      replicaId: inner.replicaId,
      start: () => inner.start(),
      stop: () => inner.stop(),
      reserve: (key) => inner.reserve(key),
      acquireTurn: (ticket: Ticket, options) => inner.acquireTurn(ticket, options),
      lead: (name, options) => inner.lead(name, options),
      tryLead: (name) => inner.tryLead(name),
      on: (event, listener) => inner.on(event, listener),
    };
  }

  test('it works by reservations, retries in place, and says once what it lacks', async () => {
    const coordinator = plain(new MemoryCoordinator({ leaseMs: lab.leaseMs }));
    const { provider } = await lab.alone(
      (bot) =>
        bot.use(async (ctx) => {
          if (ctx.message.text === '1' && ctx.attempt < 3) throw new Error('not yet');
          await ctx.reply(ctx.message.text);
        }),
      { coordinator, onError: () => {} },
    );

    await provider.receive({ chat: 'k', text: '1' });
    await provider.receive({ chat: 'k', text: '2' });
    await provider.hasSent(2);

    expect(provider.textsTo('k')).toEqual(['1', '2']);
    expect(lab.log.filter((line) => line.includes('keeps no messages'))).toHaveLength(1);
  });

  test('a message whose turn was lost gets a new place', async () => {
    const leaseMs = 600;
    const inner = new MemoryCoordinator({ leaseMs });
    const begun = gate();
    const { provider } = await lab.alone(
      (bot) =>
        bot.use(async (ctx) => {
          if (ctx.attempt > 1) return ctx.reply('second');
          begun.open();
          await new Promise((_, reject) => ctx.signal.addEventListener('abort', () => reject(ctx.signal.reason)));
        }),
      { coordinator: plain(inner) },
    );

    await provider.receive({ chat: 'k', text: 'x' });
    await begun.opened;
    inner.mesh.freeze(inner);
    await new Promise((resolve) => setTimeout(resolve, 2 * leaseMs));
    inner.mesh.thaw(inner);
    await provider.hasSent(1);

    expect(provider.textsTo('k')).toEqual(['second']);
  });
});
