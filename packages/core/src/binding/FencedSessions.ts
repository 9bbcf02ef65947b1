import { BadInputError, ConfigError } from '../errors.js';
import type { StateStore } from '../state/state-store.js';
import { type Hand, inHand } from './hand.js';

const SESSION_VERSION = 1;

interface StoredSession {
  readonly v: typeof SESSION_VERSION;
  /** The key whose fence guards it. */
  readonly key: string;
  /** Not there when it was deleted: the fence is kept. */
  readonly data?: unknown;
}

/**
 * Sessions of a framework in a state store. Each write carries the fence of the update's turn, so that a replica which was
 * passed over meanwhile changes nothing. Reads need no turn.
 *
 * A session is guarded by the held key of its own name, or else by the first key of the update. It must be the same key at
 * every write: fences of different keys say nothing about each other.
 */
export class FencedSessions {
  readonly #store: StateStore;
  readonly #prefix: string;

  constructor(store: StateStore, prefix: string) {
    if (typeof store?.load !== 'function' || typeof store.save !== 'function') {
      throw new ConfigError(
        `${prefix} sessions: no store. Pass a StateStore, such as RedisStateStore of @botmesh/redis.`,
      );
    }
    this.#store = store;
    this.#prefix = `${prefix}:session:`;
  }

  async read(name: string): Promise<unknown> {
    const stored = await this.#load(name);
    inHand()?.sessions.set(name, stored?.key);
    return stored?.data;
  }

  /**
   * @throws BadInputError for what is no plain JSON data, outside of a turn, and when another key guards the session
   * @throws StaleFenceError when the turn is over, and a newer one has written
   */
  async write(name: string, data: unknown): Promise<void> {
    const hand = inHand();
    const turn = hand?.turnOf(name) ?? hand?.first;
    if (hand === undefined || turn === undefined) {
      throw new BadInputError(
        'session: written outside of a turn, so any replica could write it at once. Run the bot by its binding, or put sequentialize() before session().',
      );
    }
    hand.assertHeld();
    await this.#checkGuard(hand, name, turn.key);
    const stored: StoredSession = { v: SESSION_VERSION, key: turn.key, data };
    await this.#store.save(this.#prefix + name, stored, turn.fence);
    hand.sessions.set(name, turn.key);
  }

  delete(name: string): Promise<void> {
    return this.write(name, undefined);
  }

  async #checkGuard(hand: Hand, name: string, key: string): Promise<void> {
    if (!hand.sessions.has(name)) hand.sessions.set(name, (await this.#load(name))?.key);
    const guard = hand.sessions.get(name);
    if (guard === undefined || guard === key) return;
    throw new BadInputError(
      'session: this one was written in turns of another key before, so two replicas could write it at once. Let the function that names the keys give the session key too.',
    );
  }

  async #load(name: string): Promise<StoredSession | undefined> {
    const found = await this.#store.load(this.#prefix + name);
    if (found === null) return undefined;
    const stored = found.value as Partial<StoredSession> | null;
    if (stored?.v === SESSION_VERSION && typeof stored.key === 'string') return stored as StoredSession;
    throw new BadInputError(
      `session: stored in a format that this version does not know; it knows ${SESSION_VERSION}. Finish the rollout.`,
    );
  }
}
