import type { StateStore } from '@botmesh/core';
import { FencedSessions } from '@botmesh/core/spi';
import type { SessionStore } from 'telegraf';

/**
 * Keeps Telegraf's sessions in a state store: `session({ store: sessionStore(store) })`. A write carries the fence of the
 * update's turn, so that a replica which was passed over meanwhile changes nothing. Sessions are plain JSON data.
 *
 * @throws BadInputError into the update, for a session that does not serialise, and for one written outside of a turn
 */
export function sessionStore<T>(store: StateStore): SessionStore<T> {
  const sessions = new FencedSessions(store, 'telegraf');
  return {
    get: (name) => sessions.read(name) as Promise<T | undefined>,
    set: (name, session) => sessions.write(name, session),
    delete: (name) => sessions.delete(name),
  } as SessionStore<T>;
}
