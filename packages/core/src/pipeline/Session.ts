import { BadInputError } from '../errors.js';
import type { StateStore, StoredState } from '../state/state-store.js';

/** The format of a stored session. */
export const SESSION_VERSION = 1;

/** Where a chat stands in a flow. Never changed, only replaced. */
export interface FlowPosition {
  readonly name: string;
  /** The key of the question whose answer is awaited. */
  readonly awaits: string;
  /** The answers so far. */
  readonly state: Readonly<Record<string, unknown>>;
}

type Data = Record<string, unknown>;

interface Stored {
  readonly v: number;
  /** The message that wrote this. */
  readonly by: number;
  readonly data: Data;
  readonly flow?: FlowPosition | undefined;
}

/** What is kept of a chat between messages: the handlers' state, and the place in a flow. Lives for one attempt. */
export class Session {
  flow: FlowPosition | undefined;
  readonly #loaded: Stored | undefined;
  #data: Data;
  /** The data as loaded, in JSON; undefined until somebody asks for the data. */
  #before: string | undefined;

  /** Throws on a format that this version does not know. */
  constructor(found: StoredState | null) {
    const stored = found === null ? undefined : (found.value as Stored | null);
    if (stored !== undefined && stored?.v !== SESSION_VERSION) {
      const version = JSON.stringify(stored?.v) ?? 'none';
      throw new BadInputError(`stored state: format ${version}, this replica knows ${SESSION_VERSION}`);
    }
    this.#loaded = stored;
    this.#data = stored?.data ?? {};
    this.flow = stored?.flow;
  }

  /** The message whose handling the loaded state already holds. */
  get savedBy(): number | undefined {
    return this.#loaded?.by;
  }

  get data(): Data {
    this.#before ??= toJson(this.#data);
    return this.#data;
  }

  set data(value: Data) {
    this.#before ??= toJson(this.#data);
    this.#data = value;
  }

  /**
   * Saves what changed under `fence`, as the work of the message `by`. Undefined when nothing did.
   *
   * @throws StaleFenceError when a later turn has written
   */
  save(store: StateStore, chat: string, fence: number, by: number): Promise<void> | undefined {
    const isChanged = this.#before !== undefined && toJson(this.#data) !== this.#before;
    if (!isChanged && this.flow === this.#loaded?.flow) return undefined;
    const stored: Stored = { v: SESSION_VERSION, by, data: this.#data, flow: this.flow };
    return store.save(chat, stored, fence);
  }
}

function toJson(data: Data): string {
  try {
    return JSON.stringify(data) ?? '{}';
  } catch (cause) {
    throw new BadInputError('ctx.state: expected plain JSON data', { cause });
  }
}
