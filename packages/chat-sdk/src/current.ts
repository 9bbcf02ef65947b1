import { AsyncLocalStorage } from 'node:async_hooks';

/** The chat's turn in which the SDK runs just now. */
export interface CurrentTurn {
  /** @throws LeaseLostError unless the turn is surely held */
  assertHeld(): void;
  /** 1 for the first try. */
  readonly attempt: number;
  /** Whether `key` is a mark by which the SDK or its adapter knows a message it has seen. */
  isMark(key: string): boolean;
  /** Sets a mark, to last if the message is handled to its end. False when it was set before. */
  mark(key: string, ttlMs: number | undefined): boolean;
}

const turns = new AsyncLocalStorage<CurrentTurn>();

export function runInTurn<T>(turn: CurrentTurn, run: () => T): T {
  return turns.run(turn, run);
}

/** Undefined for what runs outside of any: a job of your own, a script. */
export function currentTurn(): CurrentTurn | undefined {
  return turns.getStore();
}
