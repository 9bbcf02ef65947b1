import { BadInputError, type Coordinator, type StateStore } from '@botmesh/core/spi';

/** How long to wait for others who change the same entry, before the change is given up as `timeout`. */
const LONGEST_WAIT_MS = 15_000;

interface Entry {
  /** Undefined for what was deleted: its fence stays, so that no late writer brings it back. */
  readonly v?: unknown;
  /** When it is over, in milliseconds since 1970. */
  readonly until?: number;
}

/** What an edit leaves: the value, undefined to delete it; and what the caller is told. */
export interface Edited<T> {
  readonly keep?: { readonly value: unknown; readonly ttlMs?: number | undefined };
  readonly answer: T;
}

/**
 * Entries of a state store, each changed by one replica at a time: a change holds the entry's own turn, and its fence goes
 * along with the write. So what reads, decides and writes is one step for all replicas.
 */
export class Kept {
  readonly #coordinator: Coordinator;
  readonly #store: StateStore;

  constructor(coordinator: Coordinator, store: StateStore) {
    this.#coordinator = coordinator;
    this.#store = store;
  }

  /** The value under `key`, or undefined when there is none, or no more. */
  async read(key: string): Promise<unknown> {
    return presentIn((await this.#store.load(nameOf(key)))?.value as Entry | undefined);
  }

  /**
   * Changes the entry in one step. `edit` gets what is there; without `keep` nothing is written.
   *
   * @throws LeaseLostError or StaleFenceError when the change was overtaken; nothing was written
   */
  async change<T>(key: string, edit: (found: unknown) => Edited<T>): Promise<T> {
    const name = nameOf(key);
    const ticket = await this.#coordinator.reserve(name);
    const turn = await this.#coordinator.acquireTurn(ticket, { timeoutMs: LONGEST_WAIT_MS });
    try {
      const { keep, answer } = edit(presentIn((await this.#store.load(name))?.value as Entry | undefined));
      if (keep !== undefined) {
        turn.assertHeld();
        await this.#store.save(name, entryOf(key, keep), turn.fence);
      }
      return answer;
    } finally {
      // Not waited for: the next change of this entry queues up behind it anyway.
      void turn.release();
    }
  }
}

/** No chat's name begins so. */
const nameOf = (key: string): string => `botmesh:chat-sdk:${key}`;

function presentIn(entry: Entry | undefined): unknown {
  if (entry?.until !== undefined && entry.until <= Date.now()) return undefined;
  return entry?.v;
}

function entryOf(key: string, { value, ttlMs }: NonNullable<Edited<unknown>['keep']>): Entry {
  if (value === undefined) return {};
  const plain = toPlain(key, value);
  return ttlMs === undefined ? { v: plain } : { v: plain, until: Date.now() + ttlMs };
}

/** As JSON has it: what the SDK keeps has methods of its own to become JSON. What JSON would leave out in silence is refused. */
export function toPlain(key: string, value: unknown): unknown {
  let json: string | undefined;
  try {
    json = JSON.stringify(value, (_name, each: unknown) => {
      if (isLost(each)) throw new TypeError('JSON has no such value');
      return each;
    });
  } catch (cause) {
    throw new BadInputError(`${shownKey(key)}: the value does not serialise, expected JSON data.`, { cause });
  }
  if (json === undefined) {
    throw new BadInputError(
      `${shownKey(key)}: the value is ${typeof value}, expected JSON data. To forget it, delete it.`,
    );
  }
  return JSON.parse(json) as unknown;
}

function isLost(value: unknown): boolean {
  const isKind = typeof value === 'function' || typeof value === 'symbol';
  return isKind || value instanceof Map || value instanceof Set || value instanceof Promise;
}

/** What kind of entry it is; the rest of a key may be somebody's name. */
function shownKey(key: string): string {
  return `state entry '${key.split(':', 1)[0]}:…'`;
}
