// For the tests of this package: a store that is held to the reference, step by step.
import { type StoreLab, VirtualClock } from '@botmesh/core/testing';
import { Bus, copyOf, hostClock, makeFolder, removeDatabase } from '../src/lab.test-support.js';
import { Presence } from '../src/Presence.js';
import { ownIdentity } from '../src/processes.js';
import { SqliteStore } from '../src/SqliteStore.js';

/** An empty store on a file of its own, in virtual time. */
export async function storeLab(): Promise<StoreLab> {
  const folder = makeFolder();
  const bus = new Bus();
  const { time, step } = hostClock(new VirtualClock());
  const store = new SqliteStore({ path: folder.file, time, makeWire: bus.makeWire });
  // The reference cannot know that nobody was at work, and waits. SQLite can: here somebody always is.
  const underSomebody = (change: () => void) => (): void => {
    new Presence(folder.file, ownIdentity()).note('somebody');
    change();
  };
  return {
    store,
    moveClock: step,
    wipe: underSomebody(() => removeDatabase(folder.file)),
    restart: async () => underSomebody(await copyOf(folder.file))(),
    snapshot: async () => underSomebody(await copyOf(folder.file)),
    close: async () => {
      await store.close();
      folder.remove();
    },
  };
}
