import { type Instant, instant } from '../time/clock.js';
import type { Settings } from './options.js';
import { FORMAT, type JoinAnswer, type MeshConfig, type Store } from './store.js';
import type { Wakes } from './Wakes.js';
import { answerWithin } from './within.js';

/** What a start says of itself when it joins. */
export interface Start {
  readonly firstEpoch: number;
  readonly adopts: boolean;
  readonly seen: number;
}

export interface Joined {
  readonly answer: JoinAnswer;
  readonly sentAt: Instant;
}

/** One attempt to join after the other: first hears pushes, then asks for an epoch. */
export class Joining {
  readonly #settings: Settings;
  readonly #store: Store;
  readonly #wakes: Wakes;
  readonly config: MeshConfig;

  constructor(settings: Settings, store: Store, wakes: Wakes, shards: number) {
    this.#settings = settings;
    this.#store = store;
    this.#wakes = wakes;
    this.config = { format: FORMAT, leaseMs: settings.timing.leaseMs, shards };
  }

  /** An error when it came to nothing. `describe` is asked when the request is made. */
  async attempt(instance: string, describe: () => Start): Promise<Joined | Error> {
    const { clock, timing, replicaId } = this.#settings;
    const deaf = await this.#wakes.open(instance);
    if (deaf !== undefined) return deaf;
    const sentAt = instant(clock);
    const request = { replicaId, config: this.config, instance, ...describe() };
    const answer = await answerWithin(clock, timing.beatMs, () => this.#store.join(request));
    return answer instanceof Error ? answer : { answer, sentAt };
  }

  /** Before the next attempt. */
  pause(): Promise<void> {
    const { clock, timing } = this.#settings;
    return new Promise((resolve) => {
      clock.setTimer(timing.attemptMs * (0.25 + clock.random() / 2), resolve);
    });
  }
}
