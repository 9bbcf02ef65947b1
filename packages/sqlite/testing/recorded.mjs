// One replica in a process of its own, whose history is written to a file as it happens: a kill or a freeze takes nothing
// of it along. Told what to do by its parent.
import { openSync, writeSync } from 'node:fs';
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

/** How long the event loop was away: each longest gap between two ticks that are due every 5 ms. */
const lag = { sinceMs: nowMs(), lastMs: nowMs(), worstMs: 0, longMs: 0 };
setInterval(() => {
  const gapMs = nowMs() - lag.lastMs;
  lag.lastMs += gapMs;
  lag.worstMs = Math.max(lag.worstMs, gapMs);
  if (gapMs > 50) lag.longMs += gapMs;
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
    const { sinceMs, worstMs, longMs } = lag;
    tell({ event: 'lag', worstMs, longShare: longMs / (nowMs() - sinceMs) });
    Object.assign(lag, { sinceMs: nowMs(), worstMs: 0, longMs: 0 });
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
// Unless told otherwise it ends with its parent.
const startedMs = nowMs();
try {
  await coordinator.start();
  tell({ event: 'started' });
} catch (error) {
  failed('start', error, startedMs);
  process.disconnect?.();
}
