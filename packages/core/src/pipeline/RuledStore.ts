import type { StateRules } from '../state/StateRules.js';
import type { StateStore, StoredState, TransactionalStateStore } from '../state/state-store.js';
import { SESSION_VERSION } from './Session.js';

interface Session {
  readonly v: number;
  readonly data: unknown;
  /** Of the data's shape; not there for 0. */
  readonly version?: number;
}

function hasVersion(found: StoredState | null): boolean {
  return (found?.value as Partial<Session> | null | undefined)?.version !== undefined;
}

/** A store of sessions whose data follows rules: looked at and brought up to date at each load, looked at at each save. */
export class RuledStore implements StateStore {
  readonly #store: StateStore;
  readonly #rules: StateRules;

  constructor(store: StateStore, rules: StateRules) {
    this.#store = store;
    this.#rules = rules;
  }

  load(chat: string): Promise<StoredState | null> {
    return this.#store.load(chat).then(this.#read);
  }

  /** Made once, and no async function: most states are read as they are, for every message. */
  readonly #read = (found: StoredState | null): StoredState | null | Promise<StoredState | null> =>
    this.#rules.isPlain && !hasVersion(found) ? found : this.#bring(found);

  async #bring(found: StoredState | null): Promise<StoredState | null> {
    if (found === null) return { value: { v: SESSION_VERSION, data: await this.#rules.begin() }, fence: 0 };
    const session = found.value as Session | null;
    // A format that the Session will refuse, and say so.
    if (session?.v !== SESSION_VERSION) return found;
    const data = await this.#rules.read(session.data, session.version ?? 0);
    return { value: { ...session, data }, fence: found.fence };
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
