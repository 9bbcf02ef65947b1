import type { Coordinator } from '../../coordination/types.js';
import type { StateStore } from '../../state/state-store.js';
import type { Clock } from '../../time/clock.js';
import { rosterKey } from '../reserved.js';

/** How long a look may wait for its turn. The next one comes anyway. */
const LONGEST_WAIT_MS = 10_000;
/** Who has not told of itself for so many looks may be dead: what it has is asked for. */
const DOUBTFUL_LOOKS = 2;
/** Who has not for so many is forgotten. */
const GONE_LOOKS = 4;

/** What a replica tells of itself. */
export interface Told {
  /** The accounts that it leads. */
  readonly held: readonly string[];
  /** Those that it could not connect. They count as if it had them: it is given no others in their place. */
  readonly refused: readonly string[];
}

interface Line extends Told {
  /** Grows with every look of its replica. */
  readonly looks: number;
}

type Lines = Readonly<Record<string, Line>>;

export interface RosterSetup {
  readonly name: string;
  readonly coordinator: Coordinator;
  readonly store: StateStore;
  readonly clock: Clock;
  /** From one look to the next, about. */
  readonly balanceMs: number;
}

/**
 * Who shares the accounts, and which each has. A help for fairness only, for it may be out of date: that nobody else has an
 * account is what the account's leadership says.
 */
export class Roster {
  readonly #setup: RosterSetup;
  readonly #key: string;
  readonly #seen = new Map<string, { looks: number; atMs: number }>();
  #looks = 0;

  constructor(setup: RosterSetup) {
    this.#setup = setup;
    this.#key = rosterKey(setup.name);
  }

  /** Tells of this replica. Resolves with what the others told, but for those that may be dead. */
  async tell(own: Told): Promise<readonly Told[]> {
    const me = this.#setup.coordinator.replicaId;
    this.#looks += 1;
    const lines = await this.#change((found) => ({
      ...this.#living(found, GONE_LOOKS),
      [me]: { looks: this.#looks, ...own },
    }));
    const { [me]: _own, ...others } = this.#living(lines, DOUBTFUL_LOOKS);
    return Object.values(others);
  }

  async leave(): Promise<void> {
    await this.#change(({ [this.#setup.coordinator.replicaId]: _own, ...rest }) => rest);
  }

  #living(lines: Lines, looks: number): Lines {
    const limitMs = looks * this.#setup.balanceMs;
    return Object.fromEntries(Object.entries(lines).filter(([replica, line]) => this.#ageMs(replica, line) <= limitMs));
  }

  /** By this replica's own clock: how long it has seen the line unchanged. */
  #ageMs(replica: string, { looks }: Line): number {
    const nowMs = this.#setup.clock.monotonicMs();
    const seen = this.#seen.get(replica);
    if (seen?.looks === looks) return nowMs - seen.atMs;
    this.#seen.set(replica, { looks, atMs: nowMs });
    return 0;
  }

  async #change(edit: (found: Lines) => Lines): Promise<Lines> {
    const { coordinator, store } = this.#setup;
    const turn = await coordinator.acquireTurn(await coordinator.reserve(this.#key), { timeoutMs: LONGEST_WAIT_MS });
    try {
      const lines = edit(((await store.load(this.#key))?.value ?? {}) as Lines);
      turn.assertHeld();
      await store.save(this.#key, lines, turn.fence);
      return lines;
    } finally {
      await turn.release();
    }
  }
}
