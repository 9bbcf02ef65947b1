import type { AdoptedMessage } from '../../coordination/types.js';
import type { TestReplica, TestReplicaOptions } from '../conformance.js';
import type { Lab } from './Lab.js';

export interface Handled {
  readonly body: string;
  readonly attempt: number;
  readonly by: string;
}

/** Within this time of a death, the survivors have adopted and handled a few messages. */
export const adoptedMs = (lab: Lab): number => lab.deathBoundMs + lab.beatMs + lab.slackMs * 4;

/** Replicas that handle what they accept and what they adopt, and one record of all they handled to the end. */
export class Crew {
  readonly done: Handled[] = [];
  /** Every attempt that began, also those that did not end. */
  readonly begun: Handled[] = [];
  readonly #lab: Lab;
  readonly #holdMs: number;

  constructor(lab: Lab, holdMs = lab.slackMs / 4) {
    this.#lab = lab;
    this.#holdMs = holdMs;
  }

  get bodies(): string[] {
    return this.done.map(({ body }) => body);
  }

  /** A replica that adopts; `work` may end an attempt by throwing: the message is given back for another try. */
  async member(options: TestReplicaOptions = {}, work: (handled: Handled) => void = () => {}): Promise<TestReplica> {
    let replica: TestReplica | undefined;
    const early: AdoptedMessage[] = [];
    const onAdopted = (message: AdoptedMessage): void => {
      if (replica === undefined) early.push(message);
      else this.follow(replica, message, work);
    };
    replica = await this.#lab.replica({ ...options, onAdopted });
    for (const message of early) this.follow(replica, message, work);
    return replica;
  }

  /** Accepts and handles; resolves when it was taken in. Answers false for a duplicate. */
  async accept(replica: TestReplica, key: string, body: string, id?: string): Promise<boolean> {
    const ticket = await replica.coordinator.accept(key, { body, ...(id === undefined ? {} : { id }) });
    if (ticket !== null) this.follow(replica, { ticket, body, attempt: 1 });
    return ticket !== null;
  }

  follow(replica: TestReplica, message: AdoptedMessage, work: (handled: Handled) => void = () => {}): void {
    this.#lab.follow(this.#handle(replica, message, work));
  }

  async #handle(replica: TestReplica, message: AdoptedMessage, work: (handled: Handled) => void): Promise<void> {
    const { ticket, body, attempt } = message;
    const turn = await this.#lab.acquire(replica, ticket);
    const handled = { body, attempt, by: replica.coordinator.replicaId };
    this.begun.push(handled);
    await this.#lab.sleep(this.#holdMs);
    // A holder that lost its turn meanwhile stops here, as handlers must.
    turn.assertHeld();
    try {
      work(handled);
    } catch {
      await turn.release({ retry: true });
      return;
    }
    this.done.push(handled);
    await turn.release();
  }
}
