import { MemoryStore, type Snapshot } from '../coordination/MemoryStore.js';
import type { StoreView } from '../coordination/store.js';
import type { Coordinator } from '../coordination/types.js';
import { BadInputError, ConfigError, checkOptionNames } from '../errors.js';
import { type Clock, systemClock } from '../time/clock.js';
import type { LinkCounts, StrikeRate, Way } from './Link.js';
import { Rig } from './Rig.js';
import { seededRandom } from './random.js';

export interface MemoryMeshOptions {
  /** What time is, for every replica and for the store. A `VirtualClock` moves only when told. Default: the real clock. */
  clock?: Clock;
  /** How many parts the key space has, each with a store of its own. */
  shards?: number;
  /** Decides which requests a fault strikes. Without it the clock's `random` does. */
  seed?: number;
}

/** The data of a whole mesh at one moment, to be put back with `rollback`. */
export type MeshSnapshot = readonly Snapshot[];

/**
 * A mesh in this process's memory: coordinators that are given the same one are replicas of one mesh, and each of them can
 * be frozen, cut off or slowed down, as can their server. Not a backend: what it holds ends with the process.
 *
 * Faults name the coordinator they befall, and last until they are ended.
 */
export class MemoryMesh {
  readonly clock: Clock;
  readonly shards: number;
  readonly #random: () => number;
  readonly #stores: readonly MemoryStore[];
  readonly #rigs = new WeakMap<object, Rig>();

  constructor(options: MemoryMeshOptions = {}) {
    checkOptionNames('MemoryMesh', options, { clock: true, shards: true, seed: true });
    const { shards = 1, seed } = options;
    if (!Number.isSafeInteger(shards) || shards < 1) {
      throw new ConfigError(`MemoryMesh: shards is ${shards}. Give a whole number from 1 up.`);
    }
    if (seed !== undefined && !Number.isFinite(seed)) {
      throw new ConfigError(`MemoryMesh: seed is ${seed}. Give a number, or nothing.`);
    }
    const clock = options.clock ?? systemClock;
    this.clock = clock;
    this.shards = shards;
    this.#random = seed === undefined ? () => clock.random() : seededRandom(seed);
    this.#stores = Array.from({ length: shards }, () => new MemoryStore({ clock }));
  }

  /**
   * A rig for one more replica: an engine that runs on `rig.clock` and `rig.links` takes part in this mesh.
   * MemoryCoordinator does, and then calls `bind(this, rig)`, so that faults can name it.
   */
  connect(): Rig {
    return new Rig(this.#stores, { clock: this.clock, random: this.#random, answersAtOnce: true });
  }

  /** Makes `coordinator` the name of `rig` in every fault below. */
  bind(coordinator: Coordinator, rig: Rig): void {
    this.#rigs.set(coordinator, rig);
  }

  /**
   * Stops a replica as SIGSTOP stops a process: no timer of it runs, nothing reaches or leaves it. Its clocks run on, so
   * `assertHeld` tells what the replica would find if it woke now.
   */
  freeze(coordinator: Coordinator): void {
    this.rigOf(coordinator).freeze();
  }

  /** Suspends a replica's host: as `freeze`, and its monotonic clock stands still. */
  suspend(coordinator: Coordinator): void {
    this.rigOf(coordinator).suspend();
  }

  /** Ends `freeze` and `suspend`. Answers and pushes that arrived meanwhile are heard before timers that came due. */
  thaw(coordinator: Coordinator, options?: { first?: 'arrivals' | 'timers' }): void {
    this.rigOf(coordinator).thaw(options);
  }

  /** Loses everything between a replica and the store, or only what goes one way. The replica runs on. */
  cut(coordinator: Coordinator, way?: Way): void {
    this.rigOf(coordinator).cut(way);
  }

  /** Ends `cut`. What was lost stays lost. */
  heal(coordinator: Coordinator, way?: Way): void {
    this.rigOf(coordinator).heal(way);
  }

  /** Makes each request, answer and push of a replica take a while. They may overtake each other. 0 ends it. */
  delay(coordinator: Coordinator, range: { minMs: number; maxMs: number }): void {
    this.rigOf(coordinator).delay(range);
  }

  /** Loses answers to a replica after the step was done: with a probability, or the next few. 0 ends it. */
  loseAnswers(coordinator: Coordinator, rate: StrikeRate): void {
    this.rigOf(coordinator).loseAnswers(rate);
  }

  /** Brings requests of a replica to the store twice, the second time `afterMs` after the first was answered. 0 ends it. */
  repeatRequests(coordinator: Coordinator, rate: StrikeRate, afterMs?: number): void {
    this.rigOf(coordinator).repeatRequests(rate, afterMs);
  }

  /** Loses pushes to a replica: with a probability, or the next few. 0 ends it. */
  dropPushes(coordinator: Coordinator, rate: StrikeRate): void {
    this.rigOf(coordinator).dropPushes(rate);
  }

  /** Sets a replica's wall clock forward or back. Its monotonic clock is untouched. */
  stepWall(coordinator: Coordinator, ms: number): void {
    this.rigOf(coordinator).clock.stepWall(ms);
  }

  /** Ends a replica without cleaning up: the same as `coordinator.crash()`. It counts as dead at once. */
  crash(coordinator: Coordinator & { crash?(): void }): void {
    const rig = this.rigOf(coordinator);
    // Calls this method again, with the coordinator marked as crashed.
    if (!rig.clock.isKilled) {
      rig.kill();
      coordinator.crash?.();
    }
    rig.links.forEach((link, shard) => {
      for (const epoch of link.epochs) this.#stores[shard]?.kill(epoch);
    });
  }

  /** How many requests a replica has made and how many pushes it was sent, by kind. */
  counts(coordinator: Coordinator): LinkCounts {
    return this.rigOf(coordinator).counts;
  }

  /** Moves the server's clock, forward or back. The replicas' clocks are untouched. */
  stepClock(ms: number): void {
    for (const store of this.#stores) store.stepClock(ms);
  }

  /** The server loses all data. */
  wipe(): void {
    for (const store of this.#stores) store.wipe();
  }

  snapshot(): MeshSnapshot {
    return this.#stores.map((store) => store.snapshot());
  }

  /** The server loses what came after `snapshot`, as an asynchronous replica that takes over does. */
  rollback(snapshot: MeshSnapshot): void {
    this.#stores.forEach((store, shard) => {
      const own = snapshot[shard];
      if (own === undefined) throw new BadInputError(`rollback(): the snapshot has ${snapshot.length} shards.`);
      store.rollback(own);
    });
  }

  /** The server restarts and keeps its data. Replicas cannot know that it did. */
  restart(): void {
    for (const store of this.#stores) store.restart();
  }

  /** What the store has on record, one view for each shard. */
  inspect(): Promise<StoreView[]> {
    return Promise.all(this.#stores.map((store) => store.inspect()));
  }

  /** How many replicas listen for pushes, over all shards: for leak tests. */
  get listeners(): number {
    return this.#stores.reduce((sum, store) => sum + store.listenerCount, 0);
  }

  /** The clock and links of one replica, with all their faults. */
  rigOf(coordinator: Coordinator): Rig {
    const rig = this.#rigs.get(coordinator);
    if (rig === undefined) {
      const name = (coordinator as Partial<Coordinator> | null | undefined)?.replicaId ?? 'that was named';
      throw new BadInputError(`The coordinator ${name} is not of this mesh. Name one that was made with { mesh }.`);
    }
    return rig;
  }
}
