import type { StateStore } from '@botmesh/core';
import { FencedSessions } from '@botmesh/core/spi';
import type { StorageAdapter } from 'grammy';

/**
 * Keeps grammY's sessions in a state store: `session({ storage: sessionStorage(store) })`. A write carries the fence of the
 * update's turn, so that a replica which was passed over meanwhile changes nothing. Sessions are plain JSON data.
 *
 * @throws BadInputError into the update, for a session that does not serialise, and for one written outside of a turn
 */
export function sessionStorage<T>(store: StateStore): StorageAdapter<T> {
  const sessions = new FencedSessions(store, 'grammy');
  return {
    read: (key) => sessions.read(key) as Promise<T | undefined>,
    write: (key, value) => sessions.write(key, value),
    delete: (key) => sessions.delete(key),
  };
}
