import type { ChatTurn, Coordinator } from '../coordination/types.js';
import { BadInputError, CoordinationUnavailableError, LeaseLostError, NewerVersionError } from '../errors.js';
import { isPlainObject, kindOf, notPlain } from '../state/plain-data.js';
import type { StateRules } from '../state/StateRules.js';
import type { StateStore } from '../state/state-store.js';
import type { Clock } from '../time/clock.js';
import { pause } from './pause.js';
import { holdKey } from './reserved.js';
import type { StateOutages } from './StateOutage.js';

type Data = Record<string, unknown>;

/** The format of what is stored under a key. */
const HELD_VERSION = 1;

const RETRY_MS = 1_000;

interface StoredHeld {
  readonly v: typeof HELD_VERSION;
  readonly data: Data;
  /** Of the data's shape; not there for 0. */
  readonly version?: number;
}

/** A key besides the chat that a handler holds, with what is kept under it. Good until the handler has ended. */
export interface Held<T extends object = Data> {
  readonly key: string;
  /** The fencing token of this hold: greater than that of every earlier one of the key, whichever chat had it. */
  readonly fence: number;
  /** Plain JSON data, changed in place, saved when the handler has ended. Not saved when it failed. */
  state: T;
}

export interface HoldsSetup {
  readonly coordinator: Coordinator;
  readonly store: StateStore;
  readonly outages: StateOutages;
  readonly clock: Clock;
  readonly rulesOf: (key: string) => StateRules;
}

/**
 * The keys that one handler holds besides its chat. No two handlers wait for each other, whatever they hold: a chat's turn
 * is always had before, and keys are taken one after the other in the order of their names. A key that comes before one
 * that is held already is refused instead of waited for.
 */
export class Holds {
  readonly #setup: HoldsSetup;
  readonly #signal: AbortSignal;
  readonly #lost: (error: Error) => void;
  /** In the order in which they were taken, which is that of their keys. */
  readonly #held: HeldKey[] = [];
  /** Held or waited for. */
  readonly #asked = new Map<string, Promise<HeldKey>>();
  #last: Promise<unknown> = Promise.resolve();
  #isOver = false;

  /** `signal` ends waiting; `lost` hears of a hold that was lost. */
  constructor(setup: HoldsSetup, signal: AbortSignal, lost: (error: Error) => void) {
    this.#setup = setup;
    this.#signal = signal;
    this.#lost = lost;
    signal.addEventListener('abort', () => void this.release(), { once: true });
  }

  /**
   * Takes the keys that are not held yet, and resolves with all of them, in the order given.
   *
   * @throws BadInputError when one of them comes before a key that is held or waited for
   */
  take(keys: readonly string[]): Promise<HeldKey[]> {
    const missing = [...new Set(keys)].filter((key) => !this.#asked.has(key)).sort(byCodeUnits);
    for (const asked of this.#asked.keys())
      if (missing[0] !== undefined && missing[0] < asked) refuse(missing[0], asked);
    for (const key of missing) this.#ask(key);
    return Promise.all(keys.map((key) => this.#asked.get(key)!));
  }

  #ask(key: string): void {
    // One after the other: whoever waits for a key may hold none that comes after it.
    const taking = this.#last.then(() => this.#take(key));
    this.#asked.set(key, taking);
    this.#last = taking.catch(() => this.#asked.delete(key));
  }

  /** Throws LeaseLostError unless all of them are surely held. */
  assertHeld(): void {
    for (const { turn } of this.#held) turn.assertHeld();
  }

  /**
   * Saves what changed, each under its own fence. Resolves with whether anything did.
   *
   * @throws BadInputError or InvalidStateError when something may not be saved; nothing is written
   * @throws StaleFenceError or LeaseLostError when a hold was lost
   */
  async save(): Promise<boolean> {
    const changed = [];
    for (const held of this.#held) if (await held.mustSave()) changed.push(held);
    for (const held of changed) {
      this.assertHeld();
      await this.#setup.outages.save.outlast(() => held.save(this.#setup.store), this.#signal);
    }
    return changed.length > 0;
  }

  /** Lets all go, the last taken first. What is on its way is let go when it comes. Never rejects. */
  async release(): Promise<void> {
    this.#isOver = true;
    // Called in that order, and waited for together: they share a round trip.
    const held = this.#held.splice(0).reverse();
    await Promise.all(held.map(({ turn }) => turn.release()));
  }

  /** Waits for its place, also across outages: as long as the chat's turn is held, there is time. */
  async #acquire(key: string): Promise<ChatTurn> {
    const { coordinator, clock } = this.#setup;
    for (;;) {
      if (this.#isOver) throw over();
      try {
        const ticket = await coordinator.reserve(key);
        return await coordinator.acquireTurn(ticket, { signal: this.#signal });
      } catch (error) {
        if (this.#signal.aborted || !mayPass(error)) throw error;
      }
      await pause(clock, RETRY_MS, this.#signal);
    }
  }

  async #take(key: string): Promise<HeldKey> {
    const { outages, store, rulesOf } = this.#setup;
    const turn = await this.#acquire(holdKey(key));
    try {
      if (this.#isOver) throw over();
      const found = await outages.load.outlast(() => store.load(holdKey(key)), this.#signal);
      const held = await HeldKey.of(key, turn, found?.value, rulesOf(key));
      if (this.#isOver) throw over();
      turn.signal.addEventListener('abort', () => this.#lost(turn.signal.reason as Error), { once: true });
      this.#held.push(held);
      return held;
    } catch (error) {
      await turn.release();
      throw error;
    }
  }
}

/** One key that is held. */
export class HeldKey implements Held {
  readonly key: string;
  readonly turn: ChatTurn;
  readonly #rules: StateRules;
  readonly #before: string;
  #data: Data;

  private constructor(key: string, turn: ChatTurn, rules: StateRules, data: Data) {
    this.key = key;
    this.turn = turn;
    this.#rules = rules;
    this.#data = data;
    this.#before = JSON.stringify(data);
  }

  /** `value`: what is kept under the key. */
  static async of(key: string, turn: ChatTurn, value: unknown, rules: StateRules): Promise<HeldKey> {
    const found = value as Partial<StoredHeld> | undefined;
    if (found === undefined) return new HeldKey(key, turn, rules, await rules.begin());
    const version: unknown = found.v;
    if (version !== HELD_VERSION) {
      if (typeof version === 'number' && version > HELD_VERSION) {
        throw new NewerVersionError(`stored state of '${key}'`, version, HELD_VERSION);
      }
      const shown = JSON.stringify(version) ?? 'none';
      throw new BadInputError(`stored state of '${key}': format ${shown}, this replica knows ${HELD_VERSION}`);
    }
    return new HeldKey(key, turn, rules, await rules.read(found.data, found.version ?? 0));
  }

  get fence(): number {
    return this.turn.fence;
  }

  get state(): Data {
    return this.#data;
  }

  set state(data: Data) {
    if (!isPlainObject(data)) {
      throw new BadInputError(`state of '${this.key}': expected a plain object, found ${kindOf(data)}.`);
    }
    this.#data = data;
  }

  /** Whether it changed. Throws when it may not be saved. */
  async mustSave(): Promise<boolean> {
    const problem = notPlain(this.#data, `state of '${this.key}'`);
    if (problem !== undefined) throw new BadInputError(`${problem}: expected plain JSON data.`);
    if (JSON.stringify(this.#data) === this.#before) return false;
    await this.#rules.check(this.#data);
    return true;
  }

  save(store: StateStore): Promise<void> {
    const { version } = this.#rules;
    const stored: StoredHeld = { v: HELD_VERSION, data: this.#data, ...(version === 0 ? {} : { version }) };
    return store.save(holdKey(this.key), stored, this.fence);
  }
}

/** Whether a new place may be had later: the backend is away, or the place was lost with an epoch. */
function mayPass(error: unknown): boolean {
  if (error instanceof LeaseLostError) return error.reason === 'superseded' || error.reason === 'expired';
  return error instanceof CoordinationUnavailableError;
}

function refuse(key: string, held: string): never {
  throw new BadInputError(
    `ctx.hold(): '${key}' comes before '${held}', which this handler holds or waits for already. ` +
      'Take all keys in one call, or in the order of their names: so no two handlers wait for each other.',
  );
}

function over(): Error {
  return new LeaseLostError('stopped', 'this hold came after its handler had ended');
}

/** The same on every host, whatever its language. */
function byCodeUnits(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
