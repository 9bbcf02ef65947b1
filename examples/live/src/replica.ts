// One replica, in a process of its own: replica.js <path of the SQLite file> <number> <lease in ms>
import process from 'node:process';
import { Bot } from '@botmesh/core';
import type { Intake, Provider } from '@botmesh/core/spi';
import { SqliteCoordinator, SqliteStateStore } from '@botmesh/sqlite';
import { type Memory, teach } from './bot.js';
import { Parent } from './Parent.js';
import { type Delivery, LEADERSHIP } from './protocol.js';

const DRAIN_MS = 1_000;

const [path = '', number = '', leaseMs = ''] = process.argv.slice(2);

// Ctrl-C reaches every process of a terminal. It is the parent that ends this one.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => {});
process.on('disconnect', () => process.exit());

const parent = new Parent((order) => {
  if (order.kind === 'deliver') void takeIn(order.message);
  else if (order.kind === 'freeze') freeze();
  else void stop();
});

let intake: Intake | undefined;
const provider: Provider = {
  name: 'lines',
  start(to) {
    intake = to;
  },
  stop() {
    intake = undefined;
  },
  send: (chat, { text }, { key }) => parent.tell({ kind: 'answer', chat, text, key }),
};

const coordinator = new SqliteCoordinator({ path, replicaId: number, leaseMs: Number(leaseMs) });
const state = new SqliteStateStore({ path });
const bot = new Bot<Memory>({
  provider,
  coordinator,
  state,
  log: (line) => void parent.tell({ kind: 'notice', line }),
});

bot.use(async (ctx, next) => {
  const { id = '', chat } = ctx.message;
  await parent.tell({ kind: 'began', id, chat, attempt: ctx.attempt });
  try {
    await next();
  } catch (error) {
    void parent.tell({ kind: 'broken-off', id, chat });
    throw error;
  }
  await parent.tell({ kind: 'handled', id, chat, count: ctx.state.count ?? 0 });
});
teach(bot);
coordinator.on('parked', ({ id }) => void parent.tell({ kind: 'parked', id: id ?? '' }));

// A handler whose turn was lost fails, and that is no news: the message is handled elsewhere.
bot.onError((error, ctx) => {
  if (ctx?.signal.aborted) return;
  void parent.tell({ kind: 'notice', line: `replica ${number}: ${String(error)}` });
});

try {
  await bot.start();
  void campaign();
  await parent.tell({ kind: 'ready' });
} catch (error) {
  await parent.tell({ kind: 'failed', why: error instanceof Error ? error.message : String(error) });
  process.exit(1);
}

async function takeIn(message: Delivery): Promise<void> {
  const { id } = message;
  try {
    if (intake === undefined) throw Object.assign(new Error('the replica is stopping'), { code: 'stopped' });
    await intake(message);
    await parent.tell({ kind: 'accepted', id });
  } catch (error) {
    const { code = '', message: why } = error as Error & { code?: string };
    const mayPass = ['unavailable', 'timeout', 'stopped', 'not-started', 'lease-lost'].includes(code);
    await parent.tell({ kind: 'refused', id, why, mayPass });
  }
}

/** By itself, and not by the parent: a process frozen in the midst of a write keeps the file locked for all others. */
function freeze(): void {
  process.kill(process.pid, 'SIGSTOP');
  void parent.tell({ kind: 'thawed' });
}

/** Leads whenever it is elected. There is nothing to do: the example only shows who leads. */
async function campaign(): Promise<void> {
  try {
    for (;;) {
      const { signal } = await coordinator.lead(LEADERSHIP);
      await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }));
    }
  } catch {
    // The replica stops.
  }
}

async function stop(): Promise<void> {
  await bot.stop({ drainMs: DRAIN_MS });
  await state.close();
  process.exit();
}
