import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { Bot } from '@botmesh/core';
import { FakeProvider, MemoryCoordinator } from '@botmesh/core/testing';
import { Pool, type PoolClient } from 'pg';
import postgres from 'postgres';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { pgBouncer, TestPooler, TestServer, until } from '../testing/lab.js';
import { PostgresCoordinator, PostgresStateStore } from './index.js';

const LEASE_MS = 1800;
const TRANSACTOR = fileURLToPath(new URL('../testing/transactor.mjs', import.meta.url));

let server: TestServer;
let url: string;
/** Of one test. All share a database: only the first waits out its quarantine. */
let chat: string;
let chats = 0;
const opened: (() => unknown)[] = [];

beforeAll(async () => {
  server = await TestServer.start();
  url = await server.database('chats');
  await ask('create table payments (n serial primary key, chat text not null, pid int)');
});
beforeEach(async () => {
  await ask('truncate payments');
  chat = `"ana" \\ {${++chats}}`;
});
afterEach(async () => {
  for (const end of opened.splice(0).reverse()) await end();
});
afterAll(() => server[Symbol.asyncDispose]());

async function ask(text: string): Promise<unknown[][]> {
  const pool = new Pool({ connectionString: url });
  try {
    return (await pool.query({ text, rowMode: 'array' })).rows as unknown[][];
  } finally {
    await pool.end();
  }
}

const payments = async () => (await ask('select chat from payments order by n')).map(([chat]) => chat);

type Insert = (sql: unknown, chat: string) => Promise<unknown>;

const insertByPg: Insert = (sql, chat) => (sql as PoolClient).query('insert into payments (chat) values ($1)', [chat]);
const insertByPostgres: Insert = (sql, chat) => (sql as postgres.Sql)`insert into payments (chat) values (${chat})`;

const ways = [
  {
    name: 'a Pool of pg',
    insert: insertByPg,
    client: (to: string) => {
      const pool = new Pool({ connectionString: to });
      pool.on('error', () => {});
      opened.push(() => pool.end());
      return { client: pool };
    },
  },
  {
    name: 'an instance of postgres',
    insert: insertByPostgres,
    client: (to: string) => {
      // Behind a pooler of transactions its users prepare nothing.
      const sql = postgres(to, { prepare: false });
      opened.push(() => sql.end());
      return { client: sql };
    },
  },
  { name: 'a url', insert: insertByPg, client: (to: string) => ({ url: to }) },
];

async function begin(
  place: { url?: string; client?: unknown },
  set: (bot: Bot) => unknown,
  { maxAttempts = 5, wakeUp = 'listen' as 'listen' | 'poll', namespace = 'botmesh', timeoutMs = 2000 } = {},
) {
  const provider = new FakeProvider();
  const errors: unknown[] = [];
  const ends: string[] = [];
  const state = new PostgresStateStore({ ...place, namespace, timeoutMs });
  opened.push(() => state.close());
  const bot = new Bot({
    provider,
    coordinator: new PostgresCoordinator({ ...place, leaseMs: LEASE_MS, maxAttempts, wakeUp }),
    state,
    retryDelayMs: 0,
    log: () => {},
    onError: (error) => errors.push(error),
  });
  set(bot);
  bot.on('ended', ({ how, id }) => ends.push(`${id} ${how}`));
  await bot.start();
  opened.push(() => bot.stop({ drainMs: 0 }));
  return { bot, provider, errors, ends, state };
}

async function slept(sql: PoolClient, seconds: number): Promise<number> {
  await sql.query('select pg_sleep($1)', [seconds]);
  return seconds;
}

async function has(list: unknown[], count: number): Promise<void> {
  await until(`there are ${count}`, () => list.length >= count);
}

test('a transaction that waits for those of other chats to end fails no attempt, however long they take', async () => {
  const pool = new Pool({ connectionString: url, max: 1 });
  opened.push(() => pool.end());
  const { ends, errors, provider } = await begin(
    { client: pool },
    (bot) =>
      bot.use((ctx) =>
        ctx.transaction(async (sql) => {
          await insertByPg(sql, ctx.message.chat);
          if (ctx.message.text === 'slow') await insertByPg(sql, `slow ${await slept(sql as PoolClient, 1.5)}`);
        }),
      ),
    { timeoutMs: 500 }, // which gives the pool twice as long for a connection
  );

  await provider.receive({ chat, id: '1', text: 'slow' });
  await provider.receive({ chat: `${chat} too`, id: '2', text: 'pay' });
  await has(ends, 2);

  expect(errors).toEqual([]);
  expect(await payments()).toEqual([chat, 'slow 1.5', `${chat} too`]);
});

test('a transaction of pg whose connection the server ended while nothing was asked fails with what the server said', async () => {
  let runs = 0;
  const { ends, errors, provider } = await begin({ url }, (bot) =>
    bot.use((ctx) =>
      ctx.transaction(async (sql) => {
        const client = sql as PoolClient;
        await insertByPg(client, `run ${++runs}`);
        if (runs > 1) return;
        const { rows } = await client.query('select pg_backend_pid() as pid');
        const ended = new Promise((resolve) => client.on('error', resolve));
        await ask(`select pg_terminate_backend(${rows[0].pid})`);
        await ended;
      }),
    ),
  );

  await provider.receive({ chat, id: '1', text: 'pay' });
  await has(ends, 1);

  expect(errors).toMatchObject([{ code: '57P01' }]);
  expect(await payments()).toEqual(['run 2']);
});

describe.each(ways)('with $name', ({ client, insert }) => {
  test("a handler's rows, the state and the end of the message are one commit", async () => {
    const { ends, provider, state } = await begin(client(url), (bot) =>
      bot.use(async (ctx) => {
        ctx.state.paid = true;
        await ctx.transaction((sql) => insert(sql, ctx.message.chat));
      }),
    );

    await provider.receive({ chat, id: '1', text: 'pay' });
    await has(ends, 1);

    expect(ends).toEqual(['1 handled']);
    expect(await payments()).toEqual([chat]);
    expect(await state.load(chat)).toMatchObject({ value: { data: { paid: true } } });
  });

  test('what it throws takes everything back, and nothing stays open', async () => {
    let runs = 0;
    const { ends, errors, provider } = await begin(client(url), (bot) =>
      bot.use((ctx) =>
        ctx.transaction(async (sql) => {
          await insert(sql, `run ${++runs}`);
          if (runs === 1) throw new TypeError('not yet');
        }),
      ),
    );

    await provider.receive({ chat, id: '1', text: 'pay' });
    await has(ends, 1);

    expect(errors).toMatchObject([{ name: 'TypeError', message: 'not yet' }]);
    expect(await payments()).toEqual(['run 2']);
    expect(await ask("select count(*)::int from pg_stat_activity where state like 'idle in transaction%'")).toEqual([
      [0],
    ]);
  });

  test('a statement that fails arrives as the library tells it, and takes everything back', async () => {
    const found: unknown[] = [];
    const { ends, provider } = await begin(client(url), (bot) =>
      bot.use((ctx) =>
        ctx
          .transaction(async (sql) => {
            await insert(sql, 'first');
            await insert(sql, null as never);
          })
          .catch((error: unknown) => found.push(error)),
      ),
    );

    await provider.receive({ chat, id: '1', text: 'pay' });
    await has(ends, 1);

    expect(found).toMatchObject([{ code: '23502' }]);
    expect(await payments()).toEqual([]);
  });

  test('under a fence that is stale at the commit, all is taken back', async () => {
    let runs = 0;
    const { ends, errors, provider } = await begin(client(url), (bot) =>
      bot.use((ctx) =>
        ctx.transaction(async (sql) => {
          await insert(sql, `run ${++runs}`);
          // As a grant to somebody else does.
          if (runs === 1) await ask('update botmesh.chat set fence = fence + 1');
        }),
      ),
    );

    await provider.receive({ chat, id: '1', text: 'pay' });
    await has(errors, 1);
    await has(ends, 1);

    expect(errors[0]).toMatchObject({ code: 'lease-lost', reason: 'superseded' });
    expect(await payments()).toEqual([`run ${runs}`]);
  });

  test('where the mesh is another, it is refused by name', async () => {
    const { errors, provider } = await begin(
      client(url),
      (bot) => bot.use((ctx) => ctx.transaction((sql) => insert(sql, 'ana'))),
      { maxAttempts: 1, namespace: 'other' },
    );

    await provider.receive({ chat, id: '1', text: 'pay' });
    await has(errors, 1);

    expect(errors[0]).toMatchObject({ code: 'config', message: expect.stringContaining('namespace') });
    expect(await payments()).toEqual([]);
  });
});

test.each([
  ['pg', 5],
  ['postgres', 5],
  // Its last attempt: what is on record as handled is not parked.
  ['pg', 1],
] as const)(
  'a process of %s with %d attempts that is killed right after the commit leaves a message that is not handled again',
  async (library, maxAttempts) => {
    const { provider, ends } = await begin(
      { url },
      (bot) => bot.use((ctx) => ctx.transaction((sql) => insertByPg(sql, 'again'))),
      { maxAttempts },
    );
    const child = process_(library, 'kill', maxAttempts);
    await child.says('started');
    child.process.send({ chat, id: '1', text: 'pay' });
    await child.ended;

    await has(ends, 1);

    expect(ends).toEqual(['1 handled']);
    expect(await payments()).toEqual([chat]);
    expect(await provider.receive({ chat, id: '1', text: 'pay' })).toBe('duplicate');
  },
);

test.each(['pg', 'postgres'])(
  'a process of %s that was frozen in the middle is refused at the commit, and its message handled elsewhere',
  async (library) => {
    const { ends } = await begin({ url }, (bot) =>
      bot.use((ctx) => ctx.transaction((sql) => insertByPg(sql, 'elsewhere'))),
    );
    const child = process_(library, 'freeze', 5);
    await child.says('started');
    child.process.send({ chat, id: '1', text: 'pay' });
    await child.says('begun');
    child.process.kill('SIGSTOP');

    await has(ends, 1);
    child.process.kill('SIGCONT');
    await until(
      'it says something',
      () => child.said.some((what) => /refused|committed/.test(what)) || ends.length > 1,
    );
    await child.quiet();

    expect(child.said).not.toContain('committed');
    expect(await payments()).toEqual(['elsewhere']);
  },
);

test.skipIf(pgBouncer() === undefined).each(ways)(
  'with $name it works behind PgBouncer',
  async ({ client, insert }) => {
    await using pooler = await TestPooler.start(server.port);
    const through = pooler.url('chats');
    const { ends, provider } = await begin(
      client(through),
      (bot) => bot.use((ctx) => ctx.transaction((sql) => insert(sql, ctx.message.chat))),
      { wakeUp: 'poll' },
    );

    for (const id of ['1', '2', '3']) await provider.receive({ chat: `${chat} ${id}`, id, text: 'pay' });
    await has(ends, 3);

    expect((await payments()).map(String).toSorted((a, b) => a.localeCompare(b))).toEqual(
      ['1', '2', '3'].map((id) => `${chat} ${id}`),
    );
    for (const end of opened.splice(0).reverse()) await end();
  },
);

test('with another coordinator it is refused by name', async () => {
  const provider = new FakeProvider();
  const errors: unknown[] = [];
  const state = new PostgresStateStore({ url });
  opened.push(() => state.close());
  const bot = new Bot({
    provider,
    coordinator: new MemoryCoordinator({ maxAttempts: 1 }),
    state,
    log: () => {},
    onError: (error) => errors.push(error),
  });
  bot.use((ctx) => ctx.transaction((sql) => insertByPg(sql, 'ana')));
  await bot.start();
  opened.push(() => bot.stop({ drainMs: 0 }));

  await provider.receive({ chat, id: '1', text: 'pay' });
  await has(errors, 1);

  expect(errors[0]).toMatchObject({ code: 'config', message: expect.stringContaining('PostgresCoordinator') });
});

interface Child {
  readonly process: ChildProcess;
  readonly said: string[];
  readonly ended: Promise<unknown>;
  says(what: string): Promise<void>;
  /** What it had to say has arrived. */
  quiet(): Promise<void>;
}

function process_(library: string, end: string, maxAttempts: number): Child {
  const child = fork(TRANSACTOR, [url, library, end, String(maxAttempts)], {
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  });
  const said: string[] = [];
  child.on('message', (what) => said.push(what as string));
  const ended = once(child, 'exit');
  opened.push(async () => {
    child.kill('SIGKILL');
    await ended;
  });
  return {
    process: child,
    said,
    ended,
    says: (what) => until(`it says ${what}`, () => said.includes(what)),
    quiet: () => until('it is refused', () => said.some((what) => what.startsWith('refused'))),
  };
}
