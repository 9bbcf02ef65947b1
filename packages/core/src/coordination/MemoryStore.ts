import { type Clock, systemClock } from '../time/clock.js';
import type {
  ApplyAnswer,
  ApplyRequest,
  BeatAnswer,
  BeatRequest,
  JoinAnswer,
  JoinRequest,
  LeaveRequest,
  PaceAnswer,
  PaceRequest,
  ParkedNotice,
  Push,
  Store,
  StoreView,
  Waiting,
  WaitingRequest,
} from './store.js';
import * as transitions from './transitions.js';
import { emptyRecord, type MeshRecord, type Moment, type Outgoing } from './transitions.js';

/** A copy of a store's record, to be put back later. */
export type Snapshot = { readonly record: MeshRecord };

/**
 * The reference store: one process's memory. Also a server to experiment on: its clock can be stepped, its data wiped
 * or put back, its identity changed.
 */
export class MemoryStore implements Store {
  readonly #clock: Clock;
  readonly #listeners = new Map<string, (push: Push) => void>();
  #record: MeshRecord = emptyRecord();
  #run: string;
  #clockOffsetMs = 0;
  /** What was parked by deaths that no step of a replica brought about. */
  #untold: ParkedNotice[] = [];

  constructor(options: { clock?: Clock } = {}) {
    this.#clock = options.clock ?? systemClock;
    this.#run = this.#clock.uniqueId();
    // Born with this process: nothing can have been lost before, so there is nothing to wait out.
    this.#record.run = this.#run;
  }

  async join(request: JoinRequest): Promise<JoinAnswer> {
    return this.#step((record, moment, pushes) => transitions.join(record, request, moment, pushes));
  }

  async apply(request: ApplyRequest): Promise<ApplyAnswer> {
    return this.#step((record, moment, pushes) => transitions.apply(record, request, moment, pushes));
  }

  async beat(request: BeatRequest): Promise<BeatAnswer> {
    const answer = this.#step((record, moment, pushes) => transitions.beat(record, request, moment, pushes));
    return answer.kind === 'alive' ? transitions.telling(answer, this.#untold.splice(0)) : answer;
  }

  async leave(request: LeaveRequest): Promise<void> {
    this.#step((record, moment, pushes) => transitions.leave(record, request, moment, pushes));
  }

  async waiting(request: WaitingRequest): Promise<readonly Waiting[]> {
    return transitions.waiting(this.#record, request);
  }

  async pace(request: PaceRequest): Promise<PaceAnswer> {
    return this.#step((record, moment) => transitions.pace(record, request, moment));
  }

  async subscribe(instance: string, listener: (push: Push) => void): Promise<() => Promise<void>> {
    this.#listeners.set(instance, listener);
    return async () => {
      if (this.#listeners.get(instance) === listener) this.#listeners.delete(instance);
    };
  }

  async inspect(): Promise<StoreView> {
    return transitions.inspect(this.#record, this.#nowMs());
  }

  async close(): Promise<void> {}

  /** Counts an epoch as dead at once. */
  kill(epoch: number): void {
    this.#untold.push(...this.#step((record, moment, pushes) => transitions.kill(record, epoch, moment, pushes)));
  }

  /** Moves the server's clock, forward or back. */
  stepClock(byMs: number): void {
    this.#clockOffsetMs += byMs;
  }

  /** A restart that kept the data. The mesh cannot know that it did. */
  restart(): void {
    this.#run = this.#clock.uniqueId();
  }

  /** Everything is gone. */
  wipe(): void {
    this.#record = emptyRecord();
    this.restart();
  }

  snapshot(): Snapshot {
    return { record: structuredClone(this.#record) };
  }

  /** Puts an older copy of the data back: what came after is lost. */
  rollback(snapshot: Snapshot): void {
    this.#record = structuredClone(snapshot.record);
    this.restart();
  }

  /** How many listeners are subscribed: for leak tests. */
  get listenerCount(): number {
    return this.#listeners.size;
  }

  #nowMs(): number {
    return this.#clock.wallMs() + this.#clockOffsetMs;
  }

  #step<Answer>(run: (record: MeshRecord, moment: Moment, pushes: Outgoing[]) => Answer): Answer {
    const pushes: Outgoing[] = [];
    const answer = run(this.#record, { nowMs: this.#nowMs(), run: this.#run }, pushes);
    for (const { instance, push } of pushes) this.#listeners.get(instance)?.(push);
    return answer;
  }
}
