import type { StateRules } from '../state/StateRules.js';
import type { StateStore, StoredState, TransactionalStateStore } from '../state/state-store.js';
import { SESSION_VERSION } from './Session.js';

interface Session {
  readonly v: number;
  readonly data: unknown;
  /** Of the data's shape; not there for 0. */
  readonly version?: number;
}

/** A store of sessions whose data follows rules: looked at and brought up to date at each load, looked at at each save. */
export class RuledStore implements StateStore {
  readonly #store: StateStore;
  readonly #rules: StateRules;

  constructor(store: StateStore, rules: StateRules) {
    this.#store = store;
    this.#rules = rules;
  }

  /** Plain state is read as it is: a Session refuses what has a version. */
  load(chat: string): Promise<StoredState | null> {
    return this.#rules.isPlain ? this.#store.load(chat) : this.#bring(chat);
  }

  async #bring(chat: string): Promise<StoredState | null> {
    const found = await this.#store.load(chat);
    if (found === null) return { value: { v: SESSION_VERSION, data: await this.#rules.begin() }, fence: 0 };
    const session = found.value as Session | null;
    // A format that the Session will refuse, and say so.
    if (session?.v !== SESSION_VERSION) return found;
    const { version = 0, ...rest } = session;
    return { value: { ...rest, data: await this.#rules.read(session.data, version) }, fence: found.fence };
  }

  async save(chat: string, value: unknown, fence: number): Promise<void> {
    if (this.#rules.isPlain) return this.#store.save(chat, value, fence);
    await this.#store.save(chat, await this.#checked(value), fence);
  }

  /** Undefined where the store has no transactions. */
  get transaction(): TransactionalStateStore['transaction'] | undefined {
    const store = this.#store as Partial<TransactionalStateStore>;
    if (typeof store.transaction !== 'function') return undefined;
    return (work) =>
      (store as TransactionalStateStore).transaction({
        ...work,
        saved: async () => {
          const { key, value } = await work.saved();
          return { key, value: this.#rules.isPlain ? value : await this.#checked(value) };
        },
      });
  }

  async #checked(value: unknown): Promise<unknown> {
    const { version } = this.#rules;
    const session = value as Session;
    await this.#rules.check(session.data);
    return version === 0 ? session : { ...session, version };
  }
}
