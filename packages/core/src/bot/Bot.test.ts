import { afterEach, beforeEach, describe, expect, expectTypeOf, test, vi } from 'vitest';
import { MemoryCoordinator, type MemoryCoordinatorOptions } from '../coordination/MemoryCoordinator.js';
import type { Coordinator, Ticket } from '../coordination/types.js';
import { CoordinationUnavailableError, DeliveryError, LeaseLostError, StaleFenceError } from '../errors.js';
import type { StateStore } from '../state/state-store.js';
import { FakeProvider, type SentReply } from '../testing/FakeProvider.js';
import { MemoryMesh } from '../testing/MemoryMesh.js';
import { Bot } from './Bot.js';
import type { Context } from './Context.js';
import { flow } from './flow.js';
import type { BotOptions } from './options.js';

const LEASE_MS = 600;

interface Replica {
  bot: Bot;
  provider: FakeProvider;
  coordinator: MemoryCoordinator;
}

let running: Bot[];
let log: string[];
const unhandled = vi.fn();

beforeEach(() => {
  running = [];
  log = [];
  process.on('unhandledRejection', unhandled);
});

afterEach(async () => {
  await Promise.all(running.map((bot) => bot.stop({ drainMs: 0 })));
  process.off('unhandledRejection', unhandled);
  expect(unhandled).not.toHaveBeenCalled();
});

/** A mesh of replicas with one platform behind them: `sent` has the replies of all, in order. */
function makeMesh(options: MemoryCoordinatorOptions = {}) {
  const mesh = options.mesh ?? new MemoryMesh();
  const sent: SentReply[] = [];
  const textsTo = (chat: string) => sent.filter((reply) => reply.chat === chat).map((reply) => reply.text);
  async function replica(set: (bot: Bot) => unknown, more: Partial<BotOptions> = {}): Promise<Replica> {
    const coordinator = new MemoryCoordinator({ leaseMs: LEASE_MS, ...options, mesh });
    const provider = new FakeProvider({ sent });
    const bot = new Bot({ provider, coordinator, retryDelayMs: 0, log: (line) => log.push(line), ...more });
    set(bot);
    await bot.start();
    running.push(bot);
    return { bot, provider, coordinator };
  }
  return { mesh, sent, textsTo, replica };
}

async function startAlone(set: (bot: Bot) => unknown, more: Partial<BotOptions> = {}) {
  const provider = new FakeProvider();
  const bot = new Bot({ provider, retryDelayMs: 0, log: (line) => log.push(line), ...more });
  set(bot);
  await bot.start();
  running.push(bot);
  return { bot, provider };
}

const echo = (bot: Bot) => bot.use((ctx) => ctx.reply(`echo ${ctx.message.text}`));

function gate() {
  let open: () => void = () => {};
  const opened = new Promise<void>((resolve) => {
    open = resolve;
  });
  return { open, opened };
}

describe('what is handled by what', () => {
  test('a string matches the whole text, without regard to case and space around it', async () => {
    const { provider } = await startAlone((bot) => {
      bot.when('Hi', (ctx) => ctx.reply('Hello!'));
      bot.use((ctx) => ctx.reply('what?'));
    });

    for (const text of ['hi', '  HI\n', 'hi there']) await provider.receive({ chat: 'a', text });
    await provider.hasSent(3);

    expect(provider.textsTo('a')).toEqual(['Hello!', 'Hello!', 'what?']);
  });

  test('a RegExp leaves what it found in ctx.match, also when it is global', async () => {
    const { provider } = await startAlone((bot) => {
      bot.when(/^add (\d+)$/g, (ctx) => {
        expectTypeOf(ctx.match).toExtend<RegExpExecArray>();
        return ctx.reply(`added ${ctx.match[1]}`);
      });
    });

    await provider.receive({ chat: 'a', text: 'add 1' });
    await provider.receive({ chat: 'a', text: 'add 2' });
    await provider.hasSent(2);

    expect(provider.textsTo('a')).toEqual(['added 1', 'added 2']);
  });

  test('the first match wins, and a predicate may take its time', async () => {
    const { provider } = await startAlone((bot) => {
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
    const { provider } = await startAlone((bot) => {
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
    const { provider } = await startAlone(
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
    const { provider } = await startAlone(
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
    const { provider } = await startAlone(
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
    expect(() => bot.use(flow('a')).use(flow('a'))).toThrow(/flow 'a'/);
  });
});

describe('order and duplicates', () => {
  // C-23
  test('a message’s place is fixed by the call, whatever comes after', async () => {
    const { replica, textsTo, sent } = makeMesh();
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
    const { replica } = makeMesh();
    const { provider, coordinator } = await replica(echo);
    const accept = vi.spyOn(coordinator, 'accept');

    const taken = provider.receive({ chat: 'k', text: 'x' });

    expect(accept).toHaveBeenCalledOnce();
    await taken;
  });

  // C-64
  test('a message is acknowledged before its handler has ended', async () => {
    const { opened, open } = gate();
    const { replica } = makeMesh();
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
    const { provider } = kind === 'no' ? await startAlone(set) : await makeMesh().replica(set);

    expect(await provider.receive({ chat: 'k', id: '1', text: 'x' })).toBe('accepted');
    expect(await provider.receive({ chat: 'k', id: '1', text: 'x' })).toBe('duplicate');
    expect(await provider.receive({ chat: 'other', id: '1', text: 'z' })).toBe('accepted');
    await provider.receive({ chat: 'k', id: '2', text: 'y' });
    await vi.waitFor(() => expect(handled).toContain('y'));

    expect(handled.sort()).toEqual(['x', 'y', 'z']);
  });

  test('replies of a chat leave in order, awaited or not', async () => {
    const { provider } = await startAlone((bot) =>
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
    const { provider } = await startAlone(echo);
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
    const { provider } = await makeMesh().replica(echo);

    await expect(provider.receive(message as never)).rejects.toThrow(field);
  });
});

describe('failures', () => {
  // C-22
  test('a handler that throws twice and then works runs in its place, before later messages', async () => {
    const { replica, textsTo, sent } = makeMesh();
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
      const { provider } =
        kind === 'no' ? await startAlone(set, more) : await makeMesh({ maxAttempts: 2 }).replica(set, more);

      await provider.receive({ chat: 'k', text: 'bad' });
      await provider.receive({ chat: 'k', text: 'good' });
      await provider.hasSent(1);

      expect(tries).toBe(2);
      expect(log.join('\n')).toMatch(/failed 2 times/);
    },
  );

  test('a throwing onError hook disturbs nobody, and hooks may still reply', async () => {
    const { provider } = await makeMesh().replica(
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
    expect(log.join('\n')).toMatch(/hook threw/);
  });

  test('a failed send that nobody awaited fails the message; one that was caught does not', async () => {
    const onError = vi.fn();
    const { provider } = await makeMesh().replica(
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
    const { replica, mesh } = makeMesh({ maxAttempts: 2 });
    const writer = new MemoryCoordinator({ mesh, leaseMs: LEASE_MS });
    await writer.start();
    await writer.accept('k', { id: '1', body: '{"v":99}' });
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

describe('state', () => {
  interface Counted {
    count?: number;
  }

  test('ctx.state is kept for the chat, and only saved when it changed', async () => {
    const { replica, sent, textsTo } = makeMesh();
    const saves: unknown[] = [];
    const set = (bot: Bot) => {
      bot.when('look', (ctx) => ctx.reply(`${ctx.state.count ?? 0}`));
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
    const { provider } = await makeMesh().replica(
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
    const { replica, sent, textsTo } = makeMesh();
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
    const { provider } = await makeMesh().replica(
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
    const { replica, textsTo } = makeMesh();
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
});

describe('death of a replica', () => {
  test('another replica finishes a message whose replica crashed in the handler, and only that one replies', async () => {
    const { replica, sent, textsTo } = makeMesh();
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
    const { replica } = makeMesh();
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
    const { replica, mesh, sent, textsTo } = makeMesh();
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
    await vi.waitFor(() => expect(sent).toHaveLength(1), { timeout: 5 * LEASE_MS });
    mesh.thaw(a.coordinator);
    after.open();
    await vi.waitFor(() => expect(outcome).toHaveLength(1));

    expect(textsTo('k')).toEqual(['echo 1']);
    expect(outcome[0]).toMatchObject({ code: 'lease-lost' });
  });
});

describe('stop', () => {
  test('running turns end, nothing new is taken in, and what waits goes to another replica', async () => {
    const { replica, sent, textsTo } = makeMesh();
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
    const { replica, sent, textsTo } = makeMesh();
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
    const { bot, provider } = await startAlone((b) =>
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
    expect(() => bot.stop({ drainMs: -1 })).toThrow(/drainMs/);
  });

  test('a provider that fails to start stops the bot, with its own error', async () => {
    const provider = new FakeProvider();
    provider.start = () => {
      throw new Error('no token');
    };
    const { mesh } = makeMesh();
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
    const { bot } = await startAlone(echo);
    const fresh = new Bot({ provider: new FakeProvider(), log: () => {} });

    expect((await fresh.webhook(get('/livez'))).status).toBe(200);
    expect((await fresh.webhook(get('/readyz'))).status).toBe(503);
    expect((await bot.webhook(get('/api/readyz'))).status).toBe(200);
    await bot.stop();
    expect((await bot.webhook(get('/readyz'))).status).toBe(503);
    expect((await bot.webhook(get('/livez'))).status).toBe(200);
  });

  test('a provider without webhook is not found; one that throws answers 500', async () => {
    const { bot } = await startAlone(echo);
    expect((await bot.webhook(post({}))).status).toBe(404);

    const provider = new FakeProvider({ webhook: true });
    const other = new Bot({ provider, onError: () => {}, log: () => {} });
    await other.start();
    running.push(other);
    expect((await other.webhook(new Request('http://bot/', { method: 'POST', body: '{' }))).status).toBe(500);
  });

  // C-60
  test('a webhook on a coordinator in memory warns loudly at start, and a bot alone says so', async () => {
    const lines: string[] = [];
    const bot = new Bot({ provider: new FakeProvider({ webhook: true }), log: (line) => lines.push(line) });
    await bot.start();
    running.push(bot);
    await startAlone(echo);

    expect(lines.join()).toMatch(/WARNING.*out of order/);
    expect(log.join()).toMatch(/runs alone/);
  });

  // C-76
  test('an unreachable backend refuses messages as unavailable, and readiness follows it', async () => {
    const { replica, mesh } = makeMesh();
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
    const coordinator = plain(new MemoryCoordinator({ leaseMs: LEASE_MS }));
    const { provider } = await startAlone(
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
    expect(log.filter((line) => line.includes('keeps no messages'))).toHaveLength(1);
  });

  test('a message whose turn was lost gets a new place', async () => {
    const inner = new MemoryCoordinator({ leaseMs: LEASE_MS });
    const begun = gate();
    const { provider } = await startAlone(
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
    await new Promise((resolve) => setTimeout(resolve, 2 * LEASE_MS));
    inner.mesh.thaw(inner);
    await provider.hasSent(1);

    expect(provider.textsTo('k')).toEqual(['second']);
  });
});

describe('an exclusive provider', () => {
  // C-40, C-42, C-47
  test('only one replica connects; its successor does when it has closed the connection and left', async () => {
    const mesh = new MemoryMesh();
    const order: string[] = [];
    const make = async (name: string) => {
      const provider = new FakeProvider({ exclusive: true });
      const tell = (what: string) => order.push(`${name} ${what}`);
      const start = provider.start.bind(provider);
      provider.start = (intake) => {
        tell('starts');
        start(intake);
      };
      provider.close = () => void tell('closes');
      const coordinator = new MemoryCoordinator({ mesh, leaseMs: LEASE_MS });
      const bot = new Bot({ provider, coordinator, log: () => {} });
      echo(bot);
      await bot.start();
      running.push(bot);
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
    const mesh = new MemoryMesh();
    const coordinator = new MemoryCoordinator({ mesh, leaseMs: LEASE_MS });
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
});
