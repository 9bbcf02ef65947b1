// Opens stores in a process of its own, for a parent that calls them: see src/remote.test-support.ts.
import { findDriver } from '../dist/driver.js';
import { faultOf } from '../dist/explain.js';
import { SqliteStateStore, SqliteStore } from '../dist/index.js';
import { Presence } from '../dist/Presence.js';
import { ownIdentity } from '../dist/processes.js';
import { SocketWire } from '../dist/Wire.js';

/** Longer than any load of the machine makes a step wait. */
const PATIENCE_MS = 15_000;

/** The open stores by number: what runs each method of theirs. */
const opened = new Map();
const tell = (message) => process.send?.(message);
let sent = 0;

/** Unix sockets as ever; the parent is told of each push that left, and of each that arrived. */
function toldWire(store, path) {
  const presence = new Presence(path, ownIdentity());
  const wire = new SocketWire((instance) => presence.socketOf(instance));
  return {
    listen: (instance, onPush) =>
      wire.listen(instance, ({ sentAs, ...push }) => {
        onPush(push);
        tell({ store, heard: sentAs });
      }),
    send(instance, push) {
      sent += 1;
      const sentAs = `${process.pid} ${sent}`;
      tell({ store, sent: sentAs, instance });
      wire.send(instance, { ...push, sentAs });
    },
    close: () => wire.close(),
  };
}

/** On a virtual clock, waiting for others who write takes no time, so it is no reason to fail either. */
async function unhurried(run) {
  const untilMs = performance.now() + PATIENCE_MS;
  for (;;) {
    try {
      return await run();
    } catch (error) {
      if (faultOf(error.cause) !== 'busy' || performance.now() > untilMs) throw error;
    }
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
}

function openStore(id, path, kind) {
  const isVirtual = kind !== 'real';
  let time;
  const unsubscribe = new Map();
  const store = new SqliteStore(
    isVirtual ? { path, time: () => time, makeWire: () => toldWire(id, path), looks: kind !== 'steps' } : { path },
  );
  const own = {
    async subscribe(instance, subscription) {
      const listener = (push) => tell({ store: id, subscription, push });
      unsubscribe.set(subscription, await store.subscribe(instance, listener));
    },
    async unsubscribe(subscription) {
      await unsubscribe.get(subscription)?.();
      unsubscribe.delete(subscription);
    },
  };
  return (method, args, now) => {
    const run = () => (own[method] === undefined ? store[method](...args) : own[method](...args));
    if (!isVirtual) return run();
    time = now;
    return unhurried(run);
  };
}

function openState(path) {
  const state = new SqliteStateStore({ path });
  return (method, args) => state[method](...args);
}

async function call({ call: id, store, method, args, now }) {
  try {
    tell({ call: id, value: await opened.get(store)(method, args, now) });
  } catch (error) {
    const { name, message, code, fence, newestFence } = error;
    tell({ call: id, error: { name, message, code, fence, newestFence } });
  }
}

process.on('message', (message) => {
  const { open, kind, path } = message;
  if (open === undefined) void call(message);
  else opened.set(open, kind === 'state' ? openState(path) : openStore(open, path, kind));
});
process.on('disconnect', () => process.exit());
tell({ driver: (await findDriver()).name });
