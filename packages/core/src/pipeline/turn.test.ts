import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import type { Bot } from '../bot/Bot.js';
import type { Context } from '../bot/Context.js';
import type { BotOptions } from '../bot/options.js';
import { MemoryCoordinator } from '../coordination/MemoryCoordinator.js';
import { DeliveryError, LeaseLostError } from '../errors.js';
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

describe('failures', () => {
  // C-22
  test('a handler that throws twice and then works runs in its place, before later messages', async () => {
    const { replica, textsTo, sent } = lab;
    const attempts: number[] = [];
    const set = (bot: Bot) =>
      bot.use(async (ctx) => {
        if (ctx.message.text === '1') {
          attempts.push(ctx.attempt);
          if (ctx.attempt < 3) throw new Error('not yet');
        }
        await ctx.reply(ctx.message.text);
      });
    const onError = vi.fn();
    const a = await replica(set, { onError });
    const b = await replica(set, { onError });

    await a.provider.receive({ chat: 'k', text: '1' });
    await b.provider.receive({ chat: 'k', text: '2' });
    await a.provider.receive({ chat: 'k', text: '3' });
    await vi.waitFor(() => expect(sent).toHaveLength(3));

    expect(attempts).toEqual([1, 2, 3]);
    expect(textsTo('k')).toEqual(['1', '2', '3']);
    expect(onError).toHaveBeenCalledTimes(2);
  });

  // C-05
  test.each(['a shared', 'no'])(
    'a message that fails maxAttempts times blocks nobody, with %s coordinator',
    async (kind) => {
      let tries = 0;
      const set = (bot: Bot) =>
        bot.use(async (ctx) => {
          if (ctx.message.text !== 'bad') return ctx.reply(ctx.message.text);
          tries++;
          throw new Error('bad');
        });
      const more = { onError: () => {}, maxAttempts: 2 };
      lab = botMesh({ maxAttempts: 2 });
      const { provider } = kind === 'no' ? await lab.alone(set, more) : await lab.replica(set, more);

      await provider.receive({ chat: 'k', text: 'bad' });
      await provider.receive({ chat: 'k', text: 'good' });
      await provider.hasSent(1);

      expect(tries).toBe(2);
      await vi.waitFor(() => expect(lab.log.join('\n')).toMatch(/failed 2 times/));
    },
  );

  test('a throwing onError hook disturbs nobody, and hooks may still reply', async () => {
    const { provider } = await lab.replica(
      (bot) => {
        bot.use(async (ctx) => {
          if (ctx.attempt === 1) throw new Error('first');
          await ctx.reply('second try');
        });
        bot.onError((_error, ctx) => ctx?.reply('sorry'));
      },
      {
        onError: () => {
          throw new Error('hook');
        },
      },
    );

    await provider.receive({ chat: 'k', text: 'x' });
    await provider.hasSent(2);

    expect(provider.textsTo('k')).toEqual(['sorry', 'second try']);
    expect(lab.log.join('\n')).toMatch(/hook threw/);
  });

  test('a failed send that nobody awaited fails the message; one that was caught does not', async () => {
    const onError = vi.fn();
    const { provider } = await lab.replica(
      (bot) => {
        bot.when('careless', (ctx) => void ctx.reply(`careless ${ctx.attempt}`));
        bot.when('careful', async (ctx) => {
          await ctx.reply('refused').catch(() => ctx.reply('plan B'));
        });
      },
      { onError },
    );
    provider.onSend = (_chat, { text }) => {
      if (text === 'careless 1' || text === 'refused') throw new DeliveryError('no');
    };

    await provider.receive({ chat: 'k', text: 'careless' });
    await provider.receive({ chat: 'k', text: 'careful' });
    await provider.hasSent(2);

    expect(provider.textsTo('k')).toEqual(['careless 2', 'plan B']);
    expect(onError).toHaveBeenCalledOnce();
  });

  test('a stored message that this version cannot read is parked, and the next one runs', async () => {
    lab = botMesh({ maxAttempts: 2 });
    const { replica, mesh } = lab;
    const writer = new MemoryCoordinator({ mesh, leaseMs: lab.leaseMs });
    await writer.start();
    await writer.accept('k', { id: '1', body: '{"v":0}' });
    await writer.accept('k', { id: '2', body: 'no json' });
    await writer.accept('k', { id: '3', body: JSON.stringify({ v: 1, chat: 'k', text: 'x' }) });

    const { provider } = await replica(echo, { onError: () => {} });
    await writer.stop();
    await provider.hasSent(1);

    expect(provider.textsTo('k')).toEqual(['echo x']);
    const [view] = await mesh.inspect();
    expect(view?.parked.map(({ id }) => id)).toEqual(['1', '2']);
  });
});

describe('death of a replica', () => {
  test('another replica finishes a message whose replica crashed in the handler, and only that one replies', async () => {
    const { replica, sent, textsTo } = lab;
    const late: unknown[] = [];
    const begun = gate();
    const after = gate();
    const a = await replica((bot) =>
      bot.use(async (ctx) => {
        begun.open();
        await after.opened;
        await ctx.reply('from a').catch((error: unknown) => late.push(error));
      }),
    );
    const attempts: number[] = [];
    await replica((bot) =>
      bot.use((ctx) => {
        attempts.push(ctx.attempt);
        return ctx.reply(`b: ${ctx.message.text}`);
      }),
    );

    await a.provider.receive({ chat: 'k', text: '1' });
    await a.provider.receive({ chat: 'k', text: '2' });
    await begun.opened;
    a.coordinator.crash();
    await vi.waitFor(() => expect(sent).toHaveLength(2));
    after.open();
    await vi.waitFor(() => expect(late).toHaveLength(1));

    expect(textsTo('k')).toEqual(['b: 1', 'b: 2']);
    expect(attempts).toEqual([2, 1]);
    expect(late[0]).toBeInstanceOf(LeaseLostError);
  });

  // C-39c
  test('the handler’s signal aborts when the turn is lost, and onError is not called for it', async () => {
    const { replica } = lab;
    const onError = vi.fn();
    const begun = gate();
    const a = await replica(
      (bot) =>
        bot.use(async (ctx) => {
          begun.open();
          await new Promise((_, reject) => ctx.signal.addEventListener('abort', () => reject(ctx.signal.reason)));
        }),
      { onError },
    );
    const b = await replica((bot) => bot.use((ctx) => ctx.reply('b')));

    await a.provider.receive({ chat: 'k', text: '1' });
    await begun.opened;
    a.coordinator.crash();
    await b.provider.hasSent(1);

    expect(onError).not.toHaveBeenCalled();
  });

  // C-31
  test('a frozen replica’s chat goes on elsewhere, and on waking it sends nothing', async () => {
    lab = botMesh({ leaseMs: 900 });
    const { replica, mesh, sent, textsTo } = lab;
    const begun = gate();
    const after = gate();
    const outcome: unknown[] = [];
    const a = await replica((bot) =>
      bot.use(async (ctx) => {
        begun.open();
        await after.opened;
        await ctx.reply('too late').catch((error: unknown) => outcome.push(error));
      }),
    );
    await replica(echo);

    await a.provider.receive({ chat: 'k', text: '1' });
    await begun.opened;
    mesh.freeze(a.coordinator);
    await vi.waitFor(() => expect(sent).toHaveLength(1), { timeout: 5 * lab.leaseMs });
    mesh.thaw(a.coordinator);
    after.open();
    await vi.waitFor(() => expect(outcome).toHaveLength(1));

    expect(textsTo('k')).toEqual(['echo 1']);
    expect(outcome[0]).toMatchObject({ code: 'lease-lost' });
  });

  // C-38
  test('a replica that was cut off neither replies nor saves when it comes back', async () => {
    lab = botMesh({ leaseMs: 900 });
    const { replica, mesh, textsTo } = lab;
    const begun = gate();
    const after = gate();
    const ended = gate();
    const a = await replica((bot) =>
      bot.use(async (ctx) => {
        ctx.state.from = 'a';
        begun.open();
        await after.opened;
        await ctx.reply('from a').catch(() => {});
        ended.open();
      }),
    );
    const b = await replica((bot) => {
      bot.when('who', (ctx) => ctx.reply(String(ctx.state.from)));
      bot.use(async (ctx) => {
        ctx.state.from = 'b';
        await ctx.reply('from b');
      });
    });

    await a.provider.receive({ chat: 'k', text: '1' });
    await begun.opened;
    mesh.cut(a.coordinator);
    await vi.waitFor(() => expect(textsTo('k')).toEqual(['from b']), { timeout: 5 * lab.leaseMs });
    mesh.heal(a.coordinator);
    after.open();
    await ended.opened;
    await b.provider.receive({ chat: 'k', text: 'who' });
    await vi.waitFor(() => expect(textsTo('k')).toEqual(['from b', 'b']));
  });
});

describe('a handler that never ends', () => {
  // C-32
  test.each(['a shared', 'no'])(
    'is given up after maxTurnMs, the next message runs, and it can send nothing: with %s coordinator',
    async (kind) => {
      lab = botMesh({ maxAttempts: 2 });
      const reasons: unknown[] = [];
      const zombies: Context[] = [];
      const errors: unknown[] = [];
      const set = (bot: Bot) => {
        bot.when('hang', async (ctx) => {
          ctx.signal.addEventListener('abort', () => reasons.push(ctx.signal.reason));
          zombies.push(ctx);
          await new Promise(() => {});
        });
        bot.use((ctx) => ctx.reply(ctx.message.text));
      };
      const more: Partial<BotOptions> = { maxTurnMs: 20, maxAttempts: 2, onError: (error) => errors.push(error) };
      const { provider } = kind === 'no' ? await lab.alone(set, more) : await lab.replica(set, more);

      await provider.receive({ chat: 'k', text: 'hang' });
      await provider.receive({ chat: 'k', text: 'next' });
      await provider.hasSent(1);

      expect(zombies.map((ctx) => ctx.attempt)).toEqual([1, 2]);
      expect(reasons).toMatchObject([{ code: 'turn-limit' }, { code: 'turn-limit' }]);
      expect(errors).toMatchObject([{ code: 'turn-limit' }, { code: 'turn-limit' }]);
      await expect(zombies[0]?.reply('late')).rejects.toMatchObject({ code: 'lease-lost' });
      expect(provider.textsTo('k')).toEqual(['next']);
    },
  );

  test('a handler within its time is not bothered', async () => {
    const { provider } = await lab.replica(echo, { maxTurnMs: 5_000 });

    await provider.receive({ chat: 'k', text: 'x' });
    await provider.hasSent(1);
  });
});
