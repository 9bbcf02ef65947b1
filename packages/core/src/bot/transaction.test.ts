import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { LeaseLostError } from '../errors.js';
import { MemoryStateStore } from '../state/MemoryStateStore.js';
import type { TransactionalStateStore, TurnTransaction } from '../state/state-store.js';
import { type BotMesh, botMesh, gate } from '../testing/bots.js';
import type { Bot } from './Bot.js';
import type { BotOptions } from './options.js';

const unhandled = vi.fn();
beforeEach(() => process.on('unhandledRejection', unhandled));
afterEach(() => {
  process.off('unhandledRejection', unhandled);
  expect(unhandled).not.toHaveBeenCalled();
  unhandled.mockClear();
});

interface Table {
  insert(row: string): void;
}

/** A database as small as can be: one table, and the states. */
class Database extends MemoryStateStore implements TransactionalStateStore {
  readonly rows: string[] = [];
  /** Fails a commit, or does something right after it. */
  onCommit: (turn: TurnTransaction<unknown>['turn']) => Promise<void> | void = () => {};

  async transaction<T>({ run, saved, turn }: TurnTransaction<T>): Promise<T> {
    const rows: string[] = [];
    const result = await run({ insert: (row: string) => rows.push(row) } satisfies {
      insert: (row: string) => unknown;
    });
    const { key, value } = await saved();
    await this.onCommit(turn);
    await this.save(key, value, turn.fence);
    this.rows.push(...rows);
    return result;
  }
}

let mesh: BotMesh;
let database: Database;
let errors: unknown[];
let ends: string[];
beforeEach(() => {
  mesh = botMesh({ maxAttempts: 3 });
  database = new Database();
  errors = [];
  ends = [];
});
afterEach(() => mesh.close());

async function replica(set: (bot: Bot) => unknown, options: Partial<BotOptions> = {}) {
  const made = await mesh.replica(set, { state: database, onError: (error) => errors.push(error), ...options });
  made.bot.on('ended', ({ how, id }) => ends.push(`${id} ${how}`));
  return made;
}

async function ended(count: number): Promise<void> {
  await expect.poll(() => ends.length).toBe(count);
}

const stateOf = async (chat: string) => ((await database.load(chat))?.value as { data: unknown } | undefined)?.data;

test('what a handler writes, its state and the end of its message come together', async () => {
  const { provider } = await replica((bot) =>
    bot.use(async (ctx) => {
      ctx.state.count = 1;
      const answer = await ctx.transaction((sql: Table) => {
        sql.insert('paid');
        return 42;
      });
      await ctx.reply(`answer ${answer}`);
    }),
  );

  await provider.receive({ chat: 'ana', id: '1', text: 'pay' });
  await ended(1);

  expect(database.rows).toEqual(['paid']);
  expect(await stateOf('ana')).toEqual({ count: 1 });
  expect(mesh.textsTo('ana')).toEqual(['answer 42']);
  expect(ends).toEqual(['1 handled']);
});

test('what it throws is thrown on, and takes everything back', async () => {
  let runs = 0;
  const { provider } = await replica((bot) =>
    bot.use(async (ctx) => {
      ctx.state.run = ++runs;
      await ctx.transaction((sql: Table) => {
        sql.insert(`run ${runs}`);
        if (runs === 1) throw new Error('not yet');
      });
    }),
  );

  await provider.receive({ chat: 'ana', id: '1', text: 'pay' });
  await ended(1);

  expect(database.rows).toEqual(['run 2']);
  expect(await stateOf('ana')).toEqual({ run: 2 });
  expect(errors).toMatchObject([{ message: 'not yet' }]);
});

test('a failure after the commit is told, and the message is not handled again', async () => {
  let runs = 0;
  const { provider } = await replica((bot) =>
    bot.use(async (ctx) => {
      runs += 1;
      await ctx.transaction((sql: Table) => sql.insert('paid'));
      throw new Error('after the commit');
    }),
  );

  await provider.receive({ chat: 'ana', id: '1', text: 'pay' });
  await ended(1);

  expect(database.rows).toEqual(['paid']);
  expect([runs, ends]).toEqual([1, ['1 handled']]);
  expect(errors).toMatchObject([{ message: 'after the commit' }]);
});

test('a replica that dies after the commit leaves a message that is not handled again', async () => {
  const died = gate();
  const second = await replica((bot) => bot.use((ctx) => ctx.transaction((sql: Table) => sql.insert('again'))));
  const first = await replica((bot) =>
    bot.use(async (ctx) => {
      ctx.state.by = 'first';
      await ctx.transaction((sql: Table) => sql.insert('paid'));
      await died.opened;
    }),
  );
  await first.provider.receive({ chat: 'ana', id: '1', text: 'pay' });
  await expect.poll(() => database.rows).toEqual(['paid']);
  await expect.poll(async () => (await database.load('ana'))?.fence).toBeGreaterThan(0);

  first.coordinator.crash();
  died.open();
  await ended(1);

  expect(database.rows).toEqual(['paid']);
  expect(await stateOf('ana')).toEqual({ by: 'first' });
  expect(await second.provider.receive({ chat: 'ana', id: '1', text: 'pay' })).toBe('duplicate');
});

test('a turn that was lost before the commit commits nothing', async () => {
  const begun = gate();
  const lost = gate();
  const refusals: unknown[] = [];
  await replica((bot) => bot.use((ctx) => ctx.transaction((sql: Table) => sql.insert('second'))));
  const first = await replica((bot) =>
    bot.use((ctx) =>
      ctx
        .transaction(async (sql: Table) => {
          sql.insert('first');
          begun.open();
          await lost.opened;
        })
        .catch((error: unknown) => refusals.push(error)),
    ),
  );
  await first.provider.receive({ chat: 'ana', id: '1', text: 'pay' });
  await begun.opened;

  first.coordinator.crash();
  lost.open();
  await ended(1);

  expect(database.rows).toEqual(['second']);
  await expect.poll(() => refusals.length).toBe(1);
  expect(refusals[0]).toBeInstanceOf(LeaseLostError);
});

test('a newer message that interrupts after the commit is handled by itself', async () => {
  const committed = gate();
  const handled: string[] = [];
  const { provider } = await replica(
    (bot) =>
      bot.use(async (ctx) => {
        handled.push(ctx.messages.map(({ text }) => text).join('+'));
        await ctx.transaction((sql: Table) => sql.insert(ctx.message.text));
        if (ctx.message.text !== 'one') return;
        committed.open();
        await new Promise((_, reject) =>
          ctx.signal.addEventListener('abort', () => reject(ctx.signal.reason as Error)),
        );
      }),
    { overlap: 'interrupt' },
  );
  await provider.receive({ chat: 'ana', id: '1', text: 'one' });
  await committed.opened;

  await provider.receive({ chat: 'ana', id: '2', text: 'two' });
  await ended(2);

  expect(handled).toEqual(['one', 'two']);
  expect(database.rows).toEqual(['one', 'two']);
});

test('what the handler changes after the commit is saved at its end', async () => {
  const { provider } = await replica((bot) =>
    bot.use(async (ctx) => {
      ctx.state.before = 1;
      await ctx.transaction((sql: Table) => sql.insert('paid'));
      ctx.state.after = 1;
    }),
  );

  await provider.receive({ chat: 'ana', id: '1', text: 'pay' });
  await ended(1);

  expect(await stateOf('ana')).toEqual({ before: 1, after: 1 });
});

test('replies that were asked for leave before the commit', async () => {
  const order: string[] = [];
  database.onCommit = () => void order.push('commit');
  const { provider } = await replica((bot) =>
    bot.use(async (ctx) => {
      void ctx.reply('one');
      await ctx.transaction(() => void ctx.reply('two'));
      await ctx.reply('three');
    }),
  );
  provider.onSend = (_chat, { text }) => void order.push(text);

  await provider.receive({ chat: 'ana', id: '1', text: 'pay' });
  await ended(1);

  expect(order).toEqual(['one', 'two', 'commit', 'three']);
});

test('one that nobody awaits is waited for, and fails the message when it fails', async () => {
  let runs = 0;
  const { provider } = await replica((bot) =>
    bot.use((ctx) => {
      runs += 1;
      void ctx.transaction(async (sql: Table) => {
        await Promise.resolve();
        sql.insert('paid');
        if (runs === 1) throw new Error('not yet');
      });
    }),
  );

  await provider.receive({ chat: 'ana', id: '1', text: 'pay' });
  await ended(1);

  expect([runs, database.rows]).toEqual([2, ['paid']]);
});

test('one that failed and whose handler knows leaves the message to the handler', async () => {
  const { provider } = await replica((bot) =>
    bot.use(async (ctx) => {
      try {
        await ctx.transaction(() => {
          throw new Error('no money');
        });
      } catch {
        await ctx.reply('You have no money.');
      }
    }),
  );

  await provider.receive({ chat: 'ana', id: '1', text: 'pay' });
  await ended(1);

  expect([mesh.textsTo('ana'), errors]).toEqual([['You have no money.'], []]);
});

test('the schema of the state is held at the commit', async () => {
  const refused: unknown[] = [];
  const schema = {
    '~standard': {
      version: 1,
      vendor: 'test',
      validate: (value: unknown) =>
        (value as { bad?: boolean }).bad === true ? { issues: [{ message: 'bad', path: ['bad'] }] } : { value },
    },
  } as never;
  const { provider } = await replica(
    (bot) =>
      bot.use(async (ctx) => {
        ctx.state.bad = true;
        await ctx.transaction((sql: Table) => sql.insert('paid')).catch((error: unknown) => refused.push(error));
        ctx.state.bad = false;
      }),
    { state: { store: database, schema } },
  );

  await provider.receive({ chat: 'ana', id: '1', text: 'pay' });
  await ended(1);

  expect(database.rows).toEqual([]);
  expect(refused).toMatchObject([{ code: 'invalid-state' }]);
});

describe('it is refused by name', () => {
  async function refusal(
    act: (ctx: { transaction(act: unknown): Promise<unknown> }) => Promise<unknown>,
    options = {},
  ) {
    const found: unknown[] = [];
    const { provider } = await replica(
      (bot) => bot.use((ctx) => act(ctx as never).catch((error: unknown) => found.push(error))),
      options,
    );
    await provider.receive({ chat: 'ana', id: '1', text: 'pay' });
    await ended(1);
    return found[0];
  }

  test('where the state store has none', async () => {
    expect(await refusal((ctx) => ctx.transaction(() => {}), { state: new MemoryStateStore() })).toMatchObject({
      code: 'config',
      message: expect.stringContaining('PostgresStateStore'),
    });
  });

  test('for what is no function', async () => {
    expect(await refusal((ctx) => ctx.transaction('commit'))).toMatchObject({ code: 'bad-input' });
  });

  test('a second time for one message', async () => {
    const second = async (ctx: { transaction(act: unknown): Promise<unknown> }) => {
      await ctx.transaction(() => {});
      await ctx.transaction(() => {});
    };

    expect(await refusal(second)).toMatchObject({ code: 'bad-input', message: expect.stringContaining('one') });
  });
});
