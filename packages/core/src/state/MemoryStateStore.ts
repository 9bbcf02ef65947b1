import { StaleFenceError } from '../errors.js';
import { checkStateKey, checkStateWrite } from './arguments.js';
import type { StateStore, StoredState } from './state-store.js';

interface Entry {
  /** JSON text, so that no caller shares a value with the store. */
  readonly json: string;
  readonly fence: number;
}

/** Keeps state in this process: for one replica, for tests, and for replicas that are handed the same instance. */
export class MemoryStateStore implements StateStore {
  readonly #entries = new Map<string, Entry>();

  async load(key: string): Promise<StoredState | null> {
    checkStateKey(key);
    const entry = this.#entries.get(key);
    if (entry === undefined) return null;
    return { value: JSON.parse(entry.json) as unknown, fence: entry.fence };
  }

  async save(key: string, value: unknown, fence: number): Promise<void> {
    const json = checkStateWrite(key, value, fence);
    const newestFence = this.#entries.get(key)?.fence ?? fence;
    if (fence < newestFence) throw new StaleFenceError(fence, newestFence);
    this.#entries.set(key, { json, fence });
  }

  async delete(key: string): Promise<void> {
    checkStateKey(key);
    this.#entries.delete(key);
  }
}
