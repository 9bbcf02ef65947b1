import type { Coordinator, StateStore } from '@botmesh/core/spi';

const NAME = 'botmesh:baileys:roster';

interface Line {
  /** Grows with every look of its replica. One that does not grow is gone. */
  readonly looks: number;
  readonly held: number;
}

type Lines = Readonly<Record<string, Line>>;

/** Who shares the accounts, and how many each has. */
export class Roster {
  readonly #coordinator: Coordinator;
  readonly #store: StateStore;
  readonly #seen = new Map<string, { looks: number; unchanged: number }>();
  #looks = 0;

  constructor(coordinator: Coordinator, store: StateStore) {
    this.#coordinator = coordinator;
    this.#store = store;
  }

  /** Says how many accounts this replica has. Resolves with how many each of the others has. */
  async tell(held: number): Promise<readonly number[]> {
    const me = this.#coordinator.replicaId;
    this.#looks += 1;
    const lines = await this.#change((found) => ({ ...this.#living(found), [me]: { looks: this.#looks, held } }));
    return Object.entries(lines).flatMap(([replica, line]) => (replica === me ? [] : [line.held]));
  }

  async leave(): Promise<void> {
    const { [this.#coordinator.replicaId]: _own, ...rest } = (await this.#load()) ?? {};
    await this.#change(() => rest);
  }

  #living(lines: Lines): Lines {
    return Object.fromEntries(Object.entries(lines).filter(([replica, { looks }]) => !this.#isGone(replica, looks)));
  }

  #isGone(replica: string, looks: number): boolean {
    const seen = this.#seen.get(replica);
    const unchanged = seen?.looks === looks ? seen.unchanged + 1 : 0;
    this.#seen.set(replica, { looks, unchanged });
    return unchanged > 3;
  }

  async #load(): Promise<Lines | undefined> {
    return (await this.#store.load(NAME))?.value as Lines | undefined;
  }

  async #change(edit: (found: Lines) => Lines): Promise<Lines> {
    const turn = await this.#coordinator.acquireTurn(await this.#coordinator.reserve(NAME), { timeoutMs: 10_000 });
    try {
      const lines = edit((await this.#load()) ?? {});
      turn.assertHeld();
      await this.#store.save(NAME, lines, turn.fence);
      return lines;
    } finally {
      await turn.release();
    }
  }
}
