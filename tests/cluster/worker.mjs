// One replica of a bot in a process of its own. Its parent plays the platform, delivers by messages, and ends it by signals.
// What it does is appended to a file that all processes share: a line written in one go, so that the file has one order and
// a killed process loses none.
import { appendFileSync } from 'node:fs';
import { Bot } from '@botmesh/core';
import { join } from './join.mjs';

const told = JSON.parse(process.argv[2]);
const { backend, diary, replicaId, leaseMs, drainMs, isExclusive, hasRounds, isApart, tickMs, accounts, balanceMs } =
  told;
const note = (event, what = {}) => appendFileSync(diary, `${JSON.stringify({ replicaId, event, ...what })}\n`);
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const named = (error) => ({ code: error?.code, reason: error?.reason });

async function open() {
  const options = { replicaId, leaseMs, ...(isApart ? { namespace: replicaId } : {}) };
  if (backend.kind === 'sqlite') {
    const { SqliteCoordinator, SqliteStateStore } = await import('@botmesh/sqlite');
    const { path } = backend;
    return { coordinator: new SqliteCoordinator({ ...options, path }), state: new SqliteStateStore({ path }) };
  }
  if (backend.kind === 'postgres') {
    const { PostgresCoordinator, PostgresStateStore } = await import('@botmesh/postgres');
    const { url } = backend;
    return { coordinator: new PostgresCoordinator({ ...options, url }), state: new PostgresStateStore({ url }) };
  }
  if (backend.kind === 'nats') {
    const { NatsCoordinator, NatsStateStore } = await import('@botmesh/nats');
    const { url } = backend;
    return { coordinator: new NatsCoordinator({ ...options, url }), state: new NatsStateStore({ url }) };
  }
  const { RedisCoordinator, RedisStateStore } = await import('@botmesh/redis');
  const { url } = backend;
  return { coordinator: new RedisCoordinator({ ...options, url }), state: new RedisStateStore({ url }) };
}

const { coordinator, state } = await open();
coordinator.on('superseded', () => note('superseded'));

let intake;
const provider = {
  name: 'parent',
  exclusive: isExclusive,
  start(take) {
    intake = take;
    note('connected');
  },
  stop() {
    intake = undefined;
  },
  close() {
    note('closed');
  },
  async send(chat, { text, holdMs }, { signal }) {
    // The platform has it, and its answer is on its way for so long.
    if (holdMs !== undefined) note('sending', { chat, text });
    if (holdMs !== undefined) await sleep(holdMs);
    signal.throwIfAborted();
    note('sent', { chat, text });
  },
};

/** A provider with a connection for each account: a chat is `account/name`. */
const intakes = new Map();
const many = {
  ...provider,
  name: 'lines',
  exclusive: true,
  accounts,
  accountOf: (chat) => chat.split('/')[0],
  start(take, _lead, account) {
    intakes.set(account, take);
    note('connected', { key: account });
  },
  stop: (account) => void intakes.delete(account),
  close: (account) => note('closed', { key: account }),
};

/** Keeps the event loop busy: no timer runs, nothing is heard. */
function block(ms) {
  const untilMs = performance.now() + ms;
  while (performance.now() < untilMs);
}

const bot = new Bot({
  provider: accounts === undefined ? provider : many,
  ...(balanceMs === undefined ? {} : { balanceMs }),
  coordinator,
  state,
  log: () => {},
  retryDelayMs: 5,
  onError: () => {},
});
bot.use(async (ctx) => {
  const { chat, id, raw } = ctx.message;
  const { ms = 0, blockMs = 0, holdMs } = ctx.attempt === 1 ? raw : { ms: Math.min(raw?.ms ?? 0, 5) };
  note('begun', { chat, id, attempt: ctx.attempt, last: ctx.state.last });
  ctx.signal.addEventListener('abort', () =>
    note('aborted', { chat, id, atMs: Date.now(), ...named(ctx.signal.reason) }),
  );
  ctx.onSteer((text) => note('steered', { chat, id, text, atMs: Date.now() }));
  try {
    if (blockMs > 0) block(blockMs);
    if (blockMs > 0) ctx.turn.assertHeld();
    if (ms > 0) await sleep(ms);
    ctx.signal.throwIfAborted();
    const last = typeof ctx.state.last === 'string' ? ctx.state.last : 'none';
    ctx.state.last = id;
    await ctx.reply({ text: `${id} after ${last}`, ...(holdMs === undefined ? {} : { holdMs }) });
    note('done', { chat, id });
  } catch (error) {
    note('failed', { chat, id, ...named(error) });
    throw error;
  }
});
if (tickMs !== undefined) {
  // Each due time is written into a chat of its own as well, which all replicas handle.
  bot.schedule(
    { everyMs: tickMs },
    'tick',
    async (job) => {
      note('due', { key: 'tick', seq: job.dueMs, attempt: job.attempt });
      await sleep(tickMs / 4);
      await job.inChat('ticks');
      note('ran', { key: 'tick', seq: job.dueMs });
    },
    { missed: 'all' },
  );
  bot.job('tick', (ctx) => note('ticked', { key: 'tick', seq: ctx.job.dueMs, attempt: ctx.attempt }));
}
bot.on('ended', ({ chat, id, how }) => note('ended', { chat, id, how }));

/** Takes a key's turn again and again, each time as soon as the last one is over. */
async function rounds({ key, count }) {
  for (let round = 0; round < count; round++) {
    const { seq } = await coordinator.reserve(key);
    const turn = await coordinator.acquireTurn({ key, seq });
    note('held', { key, seq, fence: turn.fence });
    note('let go', { key, seq });
    await turn.release();
  }
  note('rounds over');
}

const calls = {
  deliver(message) {
    if (accounts !== undefined) intake = intakes.get(many.accountOf(message.chat));
    if (intake === undefined) throw Object.assign(new Error('not connected'), { code: 'not-started' });
    return intake(message);
  },
  async cancel({ chat, reason }) {
    const atMs = Date.now();
    return { reached: await bot.cancel(chat, reason), atMs };
  },
  async steer({ chat, payload }) {
    const atMs = Date.now();
    return { reached: await bot.steer(chat, payload), atMs };
  },
  rounds,
};

async function answer({ call, name, args }) {
  try {
    process.send?.({ call, value: (await calls[name](args)) ?? null });
  } catch (error) {
    process.send?.({ call, refused: error.code ?? String(error) });
  }
}

process.on('message', (message) => void answer(message));
// A parent that is gone leaves nobody to work for.
process.on('disconnect', () => process.exit());
await join(coordinator);
if (!hasRounds) {
  bot.handleSignals({ drainMs });
  await bot.start();
}
process.send?.({ started: true });
