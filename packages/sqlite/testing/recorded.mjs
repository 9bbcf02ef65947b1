// One replica in a process of its own, whose history is written to a file as it happens: a kill or a freeze takes nothing
// of it along. Told what to do by its parent.
import { openSync, readFileSync, writeSync } from 'node:fs';
import { Recorder } from '@botmesh/core/testing';
import { SqliteCoordinator, SqliteStateStore } from '@botmesh/sqlite';

const { path, replicaId, leaseMs, log } = JSON.parse(process.argv[2]);
/** The host's monotonic clock: common to all its processes. */
const nowMs = () => Number(process.hrtime.bigint()) / 1e6;
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
// A parent that is gone hears nothing.
const tell = (what) => process.connected && process.send({ replicaId, atMs: nowMs(), ...what }, () => {});
const file = openSync(log, 'a');
const record = (event) => writeSync(file, `${JSON.stringify(event)}\n`);

const inner = new SqliteCoordinator({ path, replicaId, leaseMs });
const coordinator = new Recorder(inner, { nowMs, record });
const state = new SqliteStateStore({ path });
const held = new Map();
let isWorking = false;
let working = Promise.resolve();

for (const event of ['available', 'lost', 'superseded', 'quarantine']) {
  coordinator.on(event, (payload) => tell({ ...payload, event }));
}
coordinator.on('unavailable', ({ error }) => tell({ event: 'unavailable', code: error.code, message: error.message }));
coordinator.onAdopted(({ ticket }) => void handle(ticket));

/** Holds a turn for a while, says again and again that it is held, and writes the chat's state under its fence. */
async function handle(ticket, forMs = 0) {
  const { key } = ticket;
  const turn = await coordinator.acquireTurn(ticket).catch(() => undefined);
  if (turn === undefined) return;
  try {
    const untilMs = nowMs() + forMs;
    do {
      turn.assertHeld();
      if (forMs > 0) await sleep(5);
    } while (nowMs() < untilMs);
    await save(key, turn.fence);
    turn.assertHeld();
    await turn.release();
    tell({ event: 'handled', key, seq: ticket.seq });
  } catch {
    // Lost: a message comes again, here or elsewhere.
    await turn.release({ retry: true });
  }
}

async function save(key, fence) {
  const write = { kind: 'written', replica: replicaId, key, fence };
  try {
    await state.save(key, { fence }, fence);
    record({ ...write, at: nowMs(), accepted: true });
  } catch (error) {
    if (error.code === 'stale-fence') record({ ...write, at: nowMs(), accepted: false });
    throw error;
  }
}

/** Takes turns of the keys until told to stop, as fast as it gets them. */
async function work(keys, forMs) {
  while (isWorking) {
    const key = keys[Math.floor(Math.random() * keys.length)];
    const ticket = await coordinator.reserve(key).catch(() => sleep(20));
    if (ticket !== undefined) await handle(ticket, Math.random() * forMs);
  }
}

/** How long this thread was ready to run and did not get a processor: that is the machine's doing. */
function queuedMs() {
  try {
    return Number(readFileSync('/proc/thread-self/schedstat', 'utf8').split(' ')[1]) / 1e6;
  } catch {
    return 0;
  }
}

/** How long the event loop was held up by what this process did, by ticks that are due every 5 ms. */
const lag = { atMs: nowMs(), queuedMs: queuedMs(), worstMs: 0 };
setInterval(() => {
  const before = { ...lag };
  Object.assign(lag, { atMs: nowMs(), queuedMs: queuedMs() });
  lag.worstMs = Math.max(lag.worstMs, lag.atMs - before.atMs - (lag.queuedMs - before.queuedMs));
}, 5).unref();

const commands = {
  async accept({ key, id, size = 1 }) {
    const ticket = await coordinator.accept(key, { id, body: 'x'.repeat(size) });
    tell({ event: 'accepted', key, id, seq: ticket?.seq });
    if (ticket !== null) await handle(ticket);
  },
  async hold({ key }) {
    const turn = await coordinator.acquireTurn(await coordinator.reserve(key));
    held.set(key, turn);
    tell({ event: 'granted', key, fence: turn.fence });
    // A holder that acts at every moment at which it may.
    for (;;) {
      turn.assertHeld();
      await sleep(5);
    }
  },
  async work({ keys, forMs }) {
    isWorking = true;
    working = Promise.all([work(keys, forMs), work(keys, forMs)]);
  },
  async rest() {
    isWorking = false;
    await working;
    tell({ event: 'rested' });
  },
  async lag() {
    tell({ event: 'lag', worstMs: lag.worstMs });
    lag.worstMs = 0;
  },
  async stop() {
    await coordinator.stop();
    await state.close();
    process.disconnect?.();
  },
};

function failed(command, error, calledMs) {
  tell({ event: 'failed', command, code: error.code, message: error.message, tookMs: nowMs() - calledMs });
}

process.on('message', ({ command, ...rest }) => {
  const calledMs = nowMs();
  commands[command](rest).catch((error) => failed(command, error, calledMs));
});

/** A start that a busy machine did not let come about in one lease is made again. */
async function start() {
  await coordinator.start().catch((error) => {
    if (error.code !== 'unavailable') throw error;
    return start();
  });
}

const startedMs = nowMs();
try {
  await start();
  tell({ event: 'started' });
} catch (error) {
  failed('start', error, startedMs);
  process.disconnect?.();
}
