import { MemoryStore } from '../coordination/MemoryStore.js';
import type { Store } from '../coordination/store.js';
import { VirtualClock } from './VirtualClock.js';

/**
 * One empty store to experiment on. `store` serves any number of replicas: requests say whose they are. What a backend's
 * server cannot be made to do is left out, and what needs it is not tried.
 */
export interface StoreLab {
  readonly store: Store;
  /** Moves the clock that the store judges by, forward or back. It stands still between calls, or runs on by itself. */
  moveClock?(byMs: number): void | Promise<void>;
  /** The server restarts and keeps its data, but the mesh cannot know that it did. */
  restart?(): void | Promise<void>;
  /** The server comes back without any data. */
  wipe?(): void | Promise<void>;
  /** Keeps a copy of the data; the returned function puts it back, on a server that is another from then on. */
  snapshot?(): Promise<() => void | Promise<void>>;
  /** Resolves when every push sent so far was heard. Left out where pushes are heard before a step is answered. */
  arrived?(): Promise<void>;
  close(): Promise<void>;
}

export type OpenStore = () => Promise<StoreLab>;

/** The reference store, on a clock that moves only when told. */
export async function memoryStoreLab(): Promise<StoreLab> {
  const store = new MemoryStore({ clock: new VirtualClock() });
  return {
    store,
    moveClock: (byMs) => store.stepClock(byMs),
    restart: () => store.restart(),
    wipe: () => store.wipe(),
    snapshot: async () => {
      const copy = store.snapshot();
      return () => store.rollback(copy);
    },
    close: () => store.close(),
  };
}
