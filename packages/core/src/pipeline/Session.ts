import { BadInputError, NewerVersionError } from '../errors.js';
import { isPlainObject, kindOf, notPlain } from '../state/plain-data.js';
import type { StateStore, StoredState } from '../state/state-store.js';
import type { SendRecord, Sends } from './sends.js';

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
  /** Of the data's shape, where a bot that keeps none finds it: a later one of the bot wrote it. */
  readonly version?: number;
  /** The message that wrote this. */
  readonly by: number;
  /** The messages that were handled together with it. */
  readonly also?: readonly number[] | undefined;
  readonly data: Data;
  readonly flow?: FlowPosition | undefined;
  /** What was sent by a message that was not handled to its end. */
  readonly sends?: Sends | undefined;
}

/** What is kept of a chat between messages: the handlers' state, and the place in a flow. Lives for one attempt. */
export class Session {
  flow: FlowPosition | undefined;
  #loaded: Stored | undefined;
  #data: Data;
  /** The data as loaded, in JSON; undefined until somebody asks for the data. */
  #before: string | undefined;
  #isTouched = false;

  /** Throws on a format that this version does not know. */
  constructor(found: StoredState | null) {
    const stored = found === null ? undefined : (found.value as Stored | null);
    if (stored !== undefined && stored?.v !== SESSION_VERSION) {
      if (Number(stored?.v) > SESSION_VERSION) throw new NewerVersionError('stored state', stored!.v, SESSION_VERSION);
      const version = JSON.stringify(stored?.v) ?? 'none';
      throw new BadInputError(`stored state: format ${version}, this replica knows ${SESSION_VERSION}`);
    }
    if (stored?.version !== undefined) throw new NewerVersionError('stored state of ctx.state', stored.version, 0);
    this.#loaded = stored;
    this.#data = stored?.data ?? {};
    this.flow = stored?.flow;
  }

  /** The message whose handling the loaded state already holds. */
  get savedBy(): number | undefined {
    return this.#loaded?.by;
  }

  /** The messages that an earlier attempt at `mark` handled together with it; undefined when none is on record. */
  boundBy(mark: number): readonly number[] | undefined {
    if (this.#loaded?.by === mark) return this.#loaded.also ?? [];
    return this.#loaded?.sends?.of === mark ? (this.#loaded.sends.also ?? []) : undefined;
  }

  /** What an earlier attempt at `mark` sent. */
  sentBy(mark: number): readonly SendRecord[] | undefined {
    return this.#loaded?.sends?.of === mark ? this.#loaded.sends.log : undefined;
  }

  /** Puts on record what was sent, beside the state as it was loaded. */
  record(store: StateStore, chat: string, fence: number, sends: Sends): Promise<void> {
    const data = this.#before === undefined ? this.#data : (JSON.parse(this.#before) as Data);
    const { by = 0, also, flow } = this.#loaded ?? {};
    const stored: Stored = { v: SESSION_VERSION, by, also, data, flow, sends };
    return store.save(chat, stored, fence);
  }

  get data(): Data {
    this.#before ??= toJson(this.#data);
    return this.#data;
  }

  set data(value: Data) {
    if (!isPlainObject(value)) {
      throw new BadInputError(
        `ctx.state: expected a plain object, found ${kindOf(value)}. To forget all, set it to {}.`,
      );
    }
    this.#before ??= toJson(this.#data);
    this.#data = value;
  }

  /** Saves it also when nothing changed: then it is on record that the message was handled. */
  touch(): void {
    this.#isTouched = true;
  }

  /**
   * Saves what changed under `fence`, as the work of the message `by` and of those handled together with it. Undefined
   * when nothing did.
   *
   * @throws StaleFenceError when a later turn has written
   * @throws BadInputError when it is not plain JSON data; nothing is written
   */
  save(store: StateStore, chat: string, fence: number, by: number, also: readonly number[]): Promise<void> | undefined {
    this.#refuseOdd();
    const isChanged = this.#before !== undefined && toJson(this.#data) !== this.#before;
    if (!isChanged && !this.#isTouched && this.flow === this.#loaded?.flow) return undefined;
    return store.save(chat, this.#stored(by, also), fence);
  }

  /**
   * What `save` would save, changed or not, for who saves it in another way. Once that is done, `landed` says so.
   *
   * @throws BadInputError when it is not plain JSON data
   */
  draft(by: number, also: readonly number[]): { readonly value: unknown; readonly landed: () => void } {
    this.#refuseOdd();
    // What the handlers change from now on is not in it.
    const value = JSON.parse(toJson(this.#stored(by, also) as unknown as Data)) as Stored;
    return {
      value,
      landed: () => {
        this.#loaded = { ...value, flow: this.flow };
        this.#before = toJson(value.data);
        this.#isTouched = false;
      },
    };
  }

  /** Also when the JSON is the same: it is what a function or a symbol leaves no trace in. */
  #refuseOdd(): void {
    if (this.#before !== undefined) refuse(notPlain(this.#data, 'ctx.state'));
    if (this.flow !== this.#loaded?.flow) refuse(notPlain(this.flow?.state ?? {}, 'c.state'));
  }

  #stored(by: number, also: readonly number[]): Stored {
    const others = also.length === 0 ? undefined : also;
    return { v: SESSION_VERSION, by, also: others, data: this.#data, flow: this.flow };
  }
}

function refuse(problem: string | undefined): void {
  if (problem === undefined) return;
  throw new BadInputError(
    `${problem}: expected plain JSON data, which is objects, arrays, strings, finite numbers, booleans and null.`,
  );
}

function toJson(data: Data): string {
  try {
    return JSON.stringify(data) ?? '{}';
  } catch (cause) {
    throw new BadInputError('ctx.state: expected plain JSON data', { cause });
  }
}
