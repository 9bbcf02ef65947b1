import { AsyncLocalStorage } from 'node:async_hooks';
import type { ChatTurn, Coordinator } from '../coordination/types.js';
import { BadInputError } from '../errors.js';

/** As much of a turn as is needed to act under it. */
export type HeldTurn = Pick<ChatTurn, 'key' | 'fence' | 'assertHeld'>;

const hands = new AsyncLocalStorage<Hand>();

/** The keys that the code which runs now holds, by a binding's turn or by `sequentialize`. Undefined outside of both. */
export function inHand(): Hand | undefined {
  return hands.getStore();
}

/**
 * The keys that one update holds while it is handled. Everything that a framework does for the update finds it by
 * `inHand()`: its sends ask whether they may leave, its sessions ask for the fence.
 */
export class Hand {
  readonly coordinator: Coordinator;
  readonly #turns = new Map<string, HeldTurn>();
  readonly #over = new AbortController();
  /** Under which key each session that was looked at is written. */
  readonly sessions = new Map<string, string | undefined>();
  #lost: unknown;
  #hasEnded = false;

  constructor(coordinator: Coordinator) {
    this.coordinator = coordinator;
  }

  /** Aborts when one of the keys is lost, or the update's time is over. */
  get signal(): AbortSignal {
    return this.#over.signal;
  }

  get keys(): readonly string[] {
    return [...this.#turns.keys()];
  }

  /** The key with the smallest name: the one whose queue the update stood in. */
  get first(): HeldTurn | undefined {
    return [...this.#turns.values()].reduce<HeldTurn | undefined>(
      (least, turn) => (least === undefined || turn.key < least.key ? turn : least),
      undefined,
    );
  }

  turnOf(key: string): HeldTurn | undefined {
    return this.#turns.get(key);
  }

  /** `signal` aborts when the turn is lost. */
  add(turn: HeldTurn, signal: AbortSignal): () => void {
    this.#turns.set(turn.key, turn);
    const onAbort = (): void => this.end(signal.reason);
    if (signal.aborted) onAbort();
    else signal.addEventListener('abort', onAbort, { once: true });
    return () => {
      signal.removeEventListener('abort', onAbort);
      this.#turns.delete(turn.key);
    };
  }

  /**
   * Throws unless every key is surely held. After an update that was handled to its end it throws no more: what its
   * handlers left running is nobody's turn.
   */
  assertHeld(): void {
    if (this.#lost !== undefined) throw this.#lost;
    if (this.#hasEnded) return;
    for (const turn of this.#turns.values()) turn.assertHeld();
  }

  /** Runs `act`, which finds this hand by `inHand()`. What it leaves running after a failure may not send any more. */
  async run<T>(act: () => T): Promise<Awaited<T>> {
    try {
      const result = await hands.run(this, act);
      this.assertHeld();
      return result;
    } catch (error) {
      this.end(error);
      throw error;
    } finally {
      this.#hasEnded = true;
    }
  }

  end(reason: unknown): void {
    if (this.#hasEnded || this.#lost !== undefined) return;
    this.#lost = reason ?? new BadInputError('The update is over.');
    this.#over.abort(this.#lost);
  }
}
