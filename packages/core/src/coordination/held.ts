import { LeaseLostError } from '../errors.js';
import { callQuietly, checkListener } from './events.js';
import type { ReleaseHow } from './store.js';
import type { Leadership, LetGo, MailTurn } from './types.js';

/** What becomes of a key when it is let go. */
export interface Ending {
  readonly how: ReleaseHow;
  readonly error?: string | null;
  /** Messages behind it that end with it. */
  readonly also?: readonly number[];
  readonly onLanded?: ((isAll: boolean, isUnsure?: boolean) => void) | undefined;
}

const LONGEST_ERROR = 500;
const MOST_ALSO = 256;
/** Where nobody ever listens, notes do not pile up. */
export const MOST_KEPT = 256;
/** Every message makes a hold: what few need costs the others nothing. */
const NONE: readonly never[] = [];

const PLAIN = { pass: { how: 'pass' }, return: { how: 'return' }, done: { how: 'done' } } as const satisfies Record<
  string,
  Ending
>;

/** What a held key needs of the seat that holds it. */
export interface Keeper {
  /** Whether this replica may still believe in what it holds, by the clocks now. */
  isTrusted(): boolean;
  /** Gives the place back. */
  release(hold: Hold, ending: Ending): Promise<void>;
}

/** A key held by this replica, under a fence. The common part of turns and leaderships. */
export abstract class Hold {
  readonly seq: number;
  readonly name: string;
  readonly fence: number;
  readonly #keeper: Keeper;
  #controller: AbortController | undefined;
  #ended: LeaseLostError | undefined;
  #released: Promise<void> | undefined;
  #listeners: readonly ((note: string) => void)[] = NONE;
  /** Notes that came before anybody listened. */
  #kept: readonly string[] = NONE;

  constructor(keeper: Keeper, seq: number, name: string, fence: number) {
    this.#keeper = keeper;
    this.seq = seq;
    this.name = name;
    this.fence = fence;
  }

  get signal(): AbortSignal {
    if (this.#controller === undefined) {
      this.#controller = new AbortController();
      if (this.#ended !== undefined) this.#controller.abort(this.#ended);
    }
    return this.#controller.signal;
  }

  assertHeld(): void {
    if (this.#released !== undefined) throw new LeaseLostError('stopped', 'it was released by its holder');
    // A lapse noticed by this very look ends the hold before the next line.
    if (this.#ended === undefined) this.#keeper.isTrusted();
    if (this.#ended !== undefined) throw this.#ended;
  }

  /** The hold is over against its holder's will. */
  lose(error: LeaseLostError): void {
    if (this.#ended !== undefined || this.#released !== undefined) return;
    this.#ended = error;
    this.#controller?.abort(error);
  }

  /** A note for this hold. */
  told(note: string): void {
    if (this.#ended !== undefined || this.#released !== undefined) return;
    for (const listener of this.#listeners) callQuietly(listener, note);
    if (this.#listeners.length > 0 || this.#kept.length >= MOST_KEPT) return;
    this.#kept = [...this.#kept, note];
  }

  /** What came before is told once the caller has what this returns. */
  onTold(listener: (note: string) => void): () => void {
    checkListener('told', listener);
    this.#listeners = this.#listeners.length === 0 ? [listener] : [...this.#listeners, listener];
    if (this.#kept.length > 0) queueMicrotask(() => this.#tellKept());
    let isOn = true;
    return () => {
      if (isOn) this.#forget(listener);
      isOn = false;
    };
  }

  /** Once: it may have been registered twice. */
  #forget(listener: (note: string) => void): void {
    const at = this.#listeners.indexOf(listener);
    this.#listeners = this.#listeners.filter((_, n) => n !== at);
  }

  #tellKept(): void {
    const kept = this.#kept;
    this.#kept = [];
    for (const note of kept) this.told(note);
  }

  protected giveBack(ending: Ending): Promise<void> {
    if (this.#released !== undefined) return this.#released;
    if (this.#ended !== undefined) return Promise.resolve();
    this.#released = this.#keeper.release(this, ending);
    return this.#released;
  }
}

export class Turn extends Hold implements MailTurn {
  get key(): string {
    return this.name;
  }

  release(options?: LetGo): Promise<void> {
    return this.giveBack(options === undefined ? PLAIN.done : endingOf(options ?? {}));
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.release();
  }
}

export class Lead extends Hold implements Leadership {
  get term(): number {
    return this.fence;
  }

  resign(): Promise<void> {
    return this.giveBack(PLAIN.done);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.resign();
  }
}

/** Never throws: a release that is refused would leave the key held. What makes no sense is left out. */
function endingOf({ retry, pass, error, also, onLanded: wanted }: LetGo): Ending {
  const how = pass === true ? 'pass' : retry === true ? 'return' : 'done';
  const onLanded = typeof wanted === 'function' ? wanted : undefined;
  if (error === undefined && also === undefined) return onLanded === undefined ? PLAIN[how] : { how, onLanded };
  const seqs = Array.isArray(also) ? also.filter((seq) => Number.isSafeInteger(seq)).slice(0, MOST_ALSO) : [];
  return { how, error: typeof error === 'string' ? error.slice(0, LONGEST_ERROR) : null, also: seqs, onLanded };
}
