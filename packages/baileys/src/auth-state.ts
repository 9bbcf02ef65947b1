import { BadInputError, StaleFenceError, type StateStore, type StoredState } from '@botmesh/core/spi';
import { decode, encode } from './encode.js';

/** The leadership under which an account is connected. */
export interface Lead {
  readonly term: number;
  assertHeld(): void;
}

type KeyData = { [type: string]: { [id: string]: unknown } | undefined };

/** What Baileys' `makeWASocket` takes as `auth`. */
export interface AuthState {
  // biome-ignore lint/suspicious/noExplicitAny: Baileys' own types, which are not known here
  creds: any;
  keys: {
    // biome-ignore lint/suspicious/noExplicitAny: the same
    get(type: any, ids: string[]): Promise<any>;
    // biome-ignore lint/suspicious/noExplicitAny: the same
    set(data: any): Promise<void>;
  };
}

export interface AuthOptions {
  /** The leadership of the account. Its term goes along with every write. */
  lead: Lead;
  /** Baileys' `initAuthCreds`: makes the credentials of an account that has none yet. */
  initAuthCreds: () => unknown;
  /**
   * Makes what Baileys wants of a key that was loaded, where that is no plain object: for `app-state-sync-key`,
   * `proto.Message.AppStateSyncKeyData.fromObject(value)`. Default: as it was loaded.
   */
  revive?: (type: string, value: unknown) => unknown;
}

/**
 * Credentials and keys of an account in a state store, for `makeWASocket({ auth: state })`.
 *
 * Every write carries the term of the leadership, and so does the first read of each key, which writes it back under that
 * term: what the present leader has read or written, an earlier one changes no more. It gets StaleFenceError.
 *
 * @throws BadInputError for an account without a name
 */
export async function useBotmeshAuthState(
  store: StateStore,
  account: string,
  options: AuthOptions,
): Promise<{ state: AuthState; saveCreds: () => Promise<void> }> {
  if (typeof account !== 'string' || account === '') {
    throw new BadInputError(
      `useBotmeshAuthState(): account is ${account === '' ? 'empty' : typeof account}. Pass a name.`,
    );
  }
  const { lead, initAuthCreds, revive = (_type, value) => value } = options;
  const entries = new FencedEntries(store, `botmesh:baileys:${account}:`, lead);
  const creds = (await entries.read('creds')) ?? initAuthCreds();
  let saving: Promise<void> = Promise.resolve();
  const keys: AuthState['keys'] = {
    async get(type: string, ids: string[]) {
      const values = await Promise.all(ids.map((id) => entries.read(`key:${type}:${id}`)));
      const found = ids.flatMap((id, at) =>
        values[at] === undefined ? [] : [[id, revive(type, values[at])] as const],
      );
      return Object.fromEntries(found);
    },
    async set(data: KeyData) {
      const writes = Object.entries(data).flatMap(([type, byId]) =>
        Object.entries(byId ?? {}).map(([id, value]) => entries.write(`key:${type}:${id}`, value ?? null)),
      );
      await Promise.all(writes);
    },
  };
  return {
    state: { creds, keys },
    saveCreds: () => {
      // One after the other: the newest is the last to be written.
      saving = saving.catch(() => {}).then(() => entries.write('creds', creds));
      return saving;
    },
  };
}

class FencedEntries {
  readonly #store: StateStore;
  readonly #prefix: string;
  readonly #lead: Lead;

  constructor(store: StateStore, prefix: string, lead: Lead) {
    this.#store = store;
    this.#prefix = prefix;
    this.#lead = lead;
  }

  async read(name: string): Promise<unknown> {
    const found = await this.#store.load(this.#prefix + name);
    if (found === null) return undefined;
    await this.#makeOwn(name, found);
    return found.value === null ? undefined : decode(found.value);
  }

  async write(name: string, value: unknown): Promise<void> {
    this.#lead.assertHeld();
    await this.#store.save(
      this.#prefix + name,
      encode(value, `auth state '${name.split(':')[1] ?? name}'`),
      this.#lead.term,
    );
  }

  /** An earlier leader that is still writing could change it behind our back otherwise. */
  async #makeOwn(name: string, { value, fence }: StoredState): Promise<void> {
    const { term } = this.#lead;
    if (fence === term) return;
    if (fence > term) throw new StaleFenceError(term, fence);
    this.#lead.assertHeld();
    await this.#store.save(this.#prefix + name, value, term);
  }
}
