import { LeaseLostError } from '../errors.js';
import type { ChatTurn, Leadership } from './types.js';

/** What a held key needs of the seat that holds it. */
export interface Keeper {
  /** Whether this replica may still believe in what it holds, by the clocks now. */
  isTrusted(): boolean;
  /** Gives the place back. */
  release(hold: Hold, isRetry: boolean): Promise<void>;
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

  protected giveBack(isRetry: boolean): Promise<void> {
    if (this.#released !== undefined) return this.#released;
    if (this.#ended !== undefined) return Promise.resolve();
    this.#released = this.#keeper.release(this, isRetry);
    return this.#released;
  }
}

export class Turn extends Hold implements ChatTurn {
  get key(): string {
    return this.name;
  }

  release(options?: { retry?: boolean }): Promise<void> {
    return this.giveBack(options?.retry === true);
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
    return this.giveBack(false);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.resign();
  }
}
