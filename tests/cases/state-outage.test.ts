// The state store alone is away, on real servers, for longer than all attempts at a message would take.
import { Bot, type StateStore } from '@botmesh/core';
import { FakeProvider } from '@botmesh/core/testing';
import { bear, PostgresServer, pause, RedisServer, until } from '@botmesh/lab';
import { PostgresStateStore } from '@botmesh/postgres';
import { RedisCoordinator, RedisStateStore } from '@botmesh/redis';
import { expect, test } from 'vitest';

/** Five attempts take less than a third of that. */
const AWAY_MS = 1_500;
const RETRY_MS = 20;
const CHATS = 20;
const limit = 60_000;

interface Frail {
  readonly state: StateStore & { close(): Promise<void> };
  readonly fail: () => Promise<unknown>;
  readonly mend: () => Promise<unknown>;
}

type Later = (act: () => Promise<void>) => void;

async function serve(later: Later): Promise<RedisServer> {
  const server = await RedisServer.start({ persistence: 'aof' });
  later(() => server[Symbol.asyncDispose]());
  await bear(server, 'botmesh', 0);
  return server;
}

const kinds: Record<string, (later: Later, mesh: RedisServer) => Promise<Frail>> = {
  'the Redis of both is full': async (_later, mesh) => ({
    state: new RedisStateStore({ url: mesh.url }),
    fail: () => mesh.ask('CONFIG', 'SET', 'maxmemory', '1'),
    mend: () => mesh.ask('CONFIG', 'SET', 'maxmemory', '0'),
  }),
  'its Redis is stopped': async (later) => {
    const server = await serve(later);
    return {
      state: new RedisStateStore({ url: server.url }),
      fail: () => server.stop(),
      mend: () => server.start(),
    };
  },
  'its PostgreSQL is stopped': async (later) => {
    const server = await PostgresServer.start();
    later(() => server[Symbol.asyncDispose]());
    return {
      state: new PostgresStateStore({ url: server.url() }),
      fail: () => server.stop(),
      mend: () => server.start(),
    };
  },
};

/** Runs the whole of it on one kind of failure. */
async function outlast(kind: string, later: Later): Promise<void> {
  const mesh = await serve(later);
  const { state, fail, mend } = await kinds[kind]!(later, mesh);
  later(() => state.close());
  const runs: string[] = [];
  const ends: string[] = [];
  const log: string[] = [];
  const provider = new FakeProvider();
  let goOn = (): void => {};
  const failed = new Promise<void>((resolve) => (goOn = resolve));
  const bot = new Bot({
    provider,
    state,
    coordinator: new RedisCoordinator({ url: mesh.url }),
    retryDelayMs: RETRY_MS,
    log: (line) => log.push(line),
  });
  later(() => bot.stop({ drainMs: 0 }));
  bot.use(async (ctx) => {
    const { id } = ctx.message;
    runs.push(`${id} try ${ctx.attempt}`);
    if (id === '2') await failed;
    const last = ctx.state.last;
    ctx.state.last = id;
    await ctx.reply(`${id} after ${String(last)}`);
  });
  bot.on('ended', ({ id, how }) => ends.push(`${id} ${how}`));
  await bot.start();
  const chats = Array.from({ length: CHATS }, (_, n) => `chat ${n}`);
  const take = (id: string): Promise<unknown> =>
    Promise.all(chats.map((chat) => provider.receive({ chat, id, text: id })));
  await take('1');
  await until('the first have ended', () => ends.length === CHATS);
  await take('2');
  await take('3');
  await until('the second run', () => runs.length === 2 * CHATS);

  await fail();
  goOn();
  await pause(AWAY_MS);
  const endedMeanwhile = ends.length - CHATS;
  await mend();
  await until('all have ended', () => ends.length === 3 * CHATS);

  expect(endedMeanwhile).toBe(0);
  expect(new Set(ends)).toEqual(new Set(['1 handled', '2 handled', '3 handled']));
  expect(runs.filter((run) => run.endsWith('try 1'))).toHaveLength(3 * CHATS);
  expect(runs).toHaveLength(3 * CHATS);
  for (const chat of chats) {
    expect(provider.textsTo(chat)).toEqual(['1 after undefined', '2 after 1', '3 after 2']);
  }
  const told = log.filter((line) => /state can(not)? be saved/.test(line));
  expect(told.map((line) => line.replace(/ \(.*|, after.*/, ''))).toEqual([
    'botmesh: state cannot be saved',
    'botmesh: state can be saved again',
  ]);
  expect(log.filter((line) => line.includes('failed'))).toEqual([]);
}

test.concurrent.each(Object.keys(kinds))(
  '%s: messages in hand are saved once it is back, none is parked or handled twice, and one line tells of it',
  { timeout: limit },
  async (kind) => {
    const last: (() => Promise<void>)[] = [];
    try {
      await outlast(kind, (act) => last.unshift(act));
    } finally {
      for (const act of last) await act();
    }
  },
);
