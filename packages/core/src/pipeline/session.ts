import { BadInputError } from '../errors.js';
import type { StateStore } from '../state/state-store.js';

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

  private constructor(loaded: Stored | undefined) {
    this.#loaded = loaded;
    this.#data = loaded?.data ?? {};
    this.flow = loaded?.flow;
  }

  static async load(store: StateStore, chat: string): Promise<Session> {
    const found = await store.load(chat);
    if (found === null) return new Session(undefined);
    const stored = found.value as Stored | null;
    if (stored?.v !== SESSION_VERSION) {
      const version = JSON.stringify(stored?.v) ?? 'none';
      throw new BadInputError(`stored state: format ${version}, this replica knows ${SESSION_VERSION}`);
    }
    return new Session(stored);
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
   * Saves what changed, if anything did, under `fence`, as the work of the message `by`.
   *
   * @throws StaleFenceError when a later turn has written
   */
  async save(store: StateStore, chat: string, fence: number, by: number): Promise<void> {
    const isChanged = this.#before !== undefined && toJson(this.#data) !== this.#before;
    if (!isChanged && this.flow === this.#loaded?.flow) return;
    const stored: Stored = { v: SESSION_VERSION, by, data: this.#data, flow: this.flow };
    await store.save(chat, stored, fence);
  }
}

function toJson(data: Data): string {
  try {
    return JSON.stringify(data) ?? '{}';
  } catch (cause) {
    throw new BadInputError('ctx.state: expected plain JSON data', { cause });
  }
}
