// What the types teach. Compiled along with the tests: a line that is expected not to compile, and does, is an error.
import { expect, expectTypeOf, test } from 'vitest';
import { z } from 'zod';
import { FakeProvider } from '../testing/FakeProvider.js';
import { Bot } from './Bot.js';
import type { ChatState, Context } from './Context.js';
import { flow } from './flow.js';
import type { Job } from './schedule/Job.js';

const provider = new FakeProvider();
const log = (): void => {};
const make = () =>
  new Bot({
    provider,
    log,
    state: {
      schema: z.object({ city: z.string().optional(), count: z.number().default(0) }),
      user: { schema: z.object({ points: z.number().default(0) }) },
    },
  });

test('a pattern gives its match, with the names of its groups where they are listed', async () => {
  const bot = make();
  const seen: unknown[] = [];

  bot.when<'city'>(/^weather in (?<city>\w+)$/, (ctx) => {
    expectTypeOf(ctx.match.groups.city).toEqualTypeOf<string | undefined>();
    expectTypeOf(ctx.match[1]).toEqualTypeOf<string | undefined>();
    // @ts-expect-error: the pattern has no group of that name
    seen.push(ctx.match.groups.town);
    seen.push(ctx.match.groups.city, ctx.match[1]);
  });
  bot.when(/^plain (\d+)$/, (ctx) => {
    expectTypeOf(ctx.match.groups.anything).toEqualTypeOf<string | undefined>();
    const [, first] = ctx.match;
    // Not undefined, as RegExp gives it where no group has a name.
    seen.push(ctx.match.groups.anything, first, ctx.match.index);
  });
  await bot.start();
  await provider.receive({ chat: 'k', text: 'weather in Oslo' });
  await provider.receive({ chat: 'k', text: 'plain 7' });
  await bot.stop();

  expect(seen).toEqual([undefined, 'Oslo', 'Oslo', undefined, '7', 0]);
});

test('a text has no match', () => {
  make().when('hi', (ctx) => {
    expectTypeOf(ctx.match).toEqualTypeOf<undefined>();
    // @ts-expect-error: a text finds nothing
    return ctx.match[0];
  });
});

test('a kind is the message’s, and a predicate narrows the context', async () => {
  const bot = make();
  const seen: string[] = [];
  type Signed =
    ReturnType<typeof make> extends Bot<infer S, infer U, infer G>
      ? Context<S, U, G> & { readonly message: { readonly from: string } }
      : never;

  bot.when({ kind: 'edit' }, (ctx) => {
    expectTypeOf(ctx.message.kind).toEqualTypeOf<'edit'>();
    seen.push(`edit ${ctx.message.text}`);
  });
  bot.when(
    (ctx): ctx is Signed => ctx.message.from !== undefined,
    (ctx) => {
      expectTypeOf(ctx.message.from).toEqualTypeOf<string>();
      expectTypeOf(ctx.state.count).toEqualTypeOf<number>();
      seen.push(`from ${ctx.message.from}`);
    },
  );
  // @ts-expect-error: a kind has a name
  expect(() => bot.when({ kind: 5 }, () => {})).toThrow(/\{ kind \}/);
  // @ts-expect-error: there is nothing else to match by
  expect(() => bot.when({ form: 'ana' }, () => {})).toThrow(/\{ kind \}/);
  await bot.start();
  await provider.receive({ chat: 'k', text: 'x', kind: 'edit' });
  await provider.receive({ chat: 'k', text: 'y', from: 'ana' });
  await bot.stop();

  expect(seen).toEqual(['edit x', 'from ana']);
});

test('state is what the schema makes of it, in every scope', () => {
  make().use(async (ctx) => {
    expectTypeOf(ctx.state.count).toEqualTypeOf<number>();
    // @ts-expect-error: not in the schema
    ctx.state.cuont = 1;
    // @ts-expect-error: a number
    ctx.state.count = 'one';
    const user = await ctx.hold('user');
    expectTypeOf(user.state.points).toEqualTypeOf<number>();
    expectTypeOf((await ctx.hold('user:42')).state.points).toEqualTypeOf<number>();
    expectTypeOf((await ctx.hold('global')).state).toEqualTypeOf<ChatState>();
    // @ts-expect-error: what is kept of a user is typed too
    user.state.pionts = 1;
    // @ts-expect-error: a hold is awaited first
    await ctx.reply(ctx.hold('user').state);
  });
});

test('a job has what names it, and is there only where a job is handled', () => {
  const bot = make();

  bot.schedule({ everyMs: 1_000 }, 'tick', (job) => {
    expectTypeOf(job).toEqualTypeOf<Job>();
    // @ts-expect-error: no chat, so no reply
    return job.reply('x');
  });
  bot.schedule({ everyMs: 1_000 }, 'remind', (ctx) => ctx.reply(`${ctx.job.dueMs} ${ctx.state.count}`), { chat: 'k' });
  bot.job('other', (ctx) => {
    expectTypeOf(ctx.job.data).toEqualTypeOf<unknown>();
  });
  bot.use((ctx) => {
    // @ts-expect-error: what people write is no job
    return ctx.job.name;
  });
  // @ts-expect-error: seconds are not known here
  expect(() => bot.schedule({ everySeconds: 5 }, 'x', () => {})).toThrow(/everyMs/);
  // @ts-expect-error: one of three
  expect(() => bot.schedule({ everyMs: 1_000 }, 'y', () => {}, { missed: 'none' })).toThrow(/missed/);
});

test('a schema and the state of the bot agree', async () => {
  // @ts-expect-error: the schema gives a number
  new Bot<{ count: string }>({ provider, log, state: { schema: z.object({ count: z.number().default(0) }) } });
  // @ts-expect-error: a broadcast has a name
  await expect(make().broadcast([], 'x', {})).rejects.toThrow(/no id/);
});

test('what cannot work does not compile', () => {
  const never = (): void => {
    // @ts-expect-error: no such mode
    new Bot({ provider, overlap: 'queue' });
    // @ts-expect-error: only what collects waits for quiet
    new Bot({ provider, overlap: { mode: 'latest', quietMs: 5 } });
    // @ts-expect-error: one of two
    new Bot({ provider, onUnavailable: 'wait' });
    // @ts-expect-error: a bot has a provider
    new Bot({});
    // @ts-expect-error: a time is a number
    void make().stop({ drainMs: '5s' });
    // @ts-expect-error: a chat is named by a text
    void make().cancel(5);
    // @ts-expect-error: there is no such event
    make().on('end', () => {});
    make().on('ended', ({ how, by, isUnsure }) => {
      expectTypeOf(how).toEqualTypeOf<
        'handled' | 'merged' | 'cancelled' | 'rejected' | 'parked' | 'lost' | 'dropped'
      >();
      expectTypeOf(by?.seq).toEqualTypeOf<number | undefined>();
      expectTypeOf(isUnsure).toEqualTypeOf<boolean | undefined>();
    });
    make().use(async (ctx) => {
      // @ts-expect-error: a reply has a text
      await ctx.reply(42);
      // @ts-expect-error: read only
      ctx.message.text = 'x';
    });
    flow('signup')
      .ask('Name?', 'name')
      .say((_ctx, c) => {
        expectTypeOf(c.state.name).toEqualTypeOf<string>();
        // @ts-expect-error: nobody asked for that
        return c.state.nmae;
      });
  };

  expect(never).toBeTypeOf('function');
});

test('one held key gives its hold, and several an array of them', async () => {
  const bot = make();
  const seen: unknown[] = [];
  bot.use(async (ctx) => {
    const user = await ctx.hold('user');
    expectTypeOf(user.state.points).toEqualTypeOf<number>();
    const take = async (): Promise<unknown> => {
      // @ts-expect-error: one key gives no array
      const [first] = await ctx.hold('user');
      return first;
    };
    seen.push(take.length, Symbol.iterator in user);
  });
  await bot.start();
  await provider.receive({ chat: 'k', from: 'ana', text: 'x' });
  await expect.poll(() => seen).toEqual([0, false]);
  await bot.stop();
});
