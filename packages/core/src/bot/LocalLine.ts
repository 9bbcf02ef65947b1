import { MemoryCoordinator } from '../coordination/MemoryCoordinator.js';
import { CoordinationUnavailableError } from '../errors.js';
import { drain } from '../pipeline/drain.js';
import type { Message } from '../pipeline/envelope.js';
import { plainIngress, type Take } from '../pipeline/ingress.js';
import { Load } from '../pipeline/Load.js';
import { settleOverlap } from '../pipeline/overlap.js';
import type { TurnSetup, Work } from '../pipeline/setup.js';
import { MessageTurn } from '../pipeline/turn.js';
import type { IncomingMessage } from '../providers/provider.js';
import type { StateStore } from '../state/state-store.js';

/** Handles messages in this process alone, each chat in its order, while the backend is away. */
export class LocalLine {
  readonly #coordinator = new MemoryCoordinator();
  readonly #load = new Load();
  readonly #setup: TurnSetup;
  readonly #take: Take;

  /** `store` keeps the state of chats meanwhile: the one of the mesh may be away too, and knows other fences. */
  constructor(setup: TurnSetup, store: StateStore) {
    this.#setup = {
      ...setup,
      isLocal: true,
      gate: undefined,
      forgotten: undefined,
      coordinator: this.#coordinator,
      isDurable: false,
      mail: undefined,
      passesOn: false,
      rules: settleOverlap(undefined),
      unknownSends: undefined,
      store,
      load: this.#load,
    };
    this.#take = plainIngress(this.#coordinator, (work) => this.#begin(work), this.#load);
  }

  start(): Promise<void> {
    return this.#coordinator.start();
  }

  /** Lets what was taken in end for `drainMs`: nobody else has it. */
  async stop(drainMs: number, hurry: AbortSignal): Promise<void> {
    await drain(this.#load, this.#setup.clock, drainMs, false, hurry);
    await this.#coordinator.stop();
  }

  /** As `take`, and what the mesh cannot take in is handled here. `taken` hears of that. */
  behind(take: Take, taken: (message: IncomingMessage) => void): Take {
    return async (message, job) => {
      try {
        return await take(message, job);
      } catch (error) {
        if (!(error instanceof CoordinationUnavailableError) || error.code !== 'unavailable') throw error;
        const answer = await this.#take(message, job);
        if (answer === 'accepted') taken(message);
        return answer;
      }
    };
  }

  #begin(work: Work): void {
    void new MessageTurn(this.#setup, work).run();
  }
}

/** A message that was handled in one process alone. */
export type LocalMessage = Pick<Message, 'chat' | 'id'>;
