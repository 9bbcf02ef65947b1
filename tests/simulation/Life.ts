import type { AdoptedMessage } from '@botmesh/core/spi';
import { MemoryCoordinator } from '@botmesh/core/testing';
import type { World } from './World.js';

/** How often a message is tried. */
export const MAX_ATTEMPTS = 3;

/** What befell a process so far: which errors it may report depends on it. */
export interface Suffered {
  /** It was held up or cut off: it may say `unavailable`, and be presumed dead. */
  isolation: boolean;
  /** The server changed: its places may be lost. */
  serverChange: boolean;
}

/** What a process does. */
export interface Job {
  /** One of its tasks. Ends with the process, or when the run drains. */
  work(life: Life): Promise<void>;
  adopt(life: Life, message: AdoptedMessage): void;
}

export interface LifeOptions {
  readonly replicaId: string;
  /** Tells this start from others with the same replicaId. */
  readonly number: number;
  readonly adopts: boolean;
  readonly job: Job;
}

/** One process: a coordinator and the work it does, from its start to its end. */
export class Life {
  readonly world: World;
  readonly replicaId: string;
  readonly name: string;
  readonly coordinator: MemoryCoordinator;
  readonly suffered: Suffered = { isolation: false, serverChange: false };
  /** Calls that were made and have not settled. */
  readonly pending = new Set<{ readonly what: string; readonly sinceMs: number }>();
  calls = 0;
  /** A start is under way. It may fail, and calls made meanwhile with it. */
  isStarting = false;
  isStopping = false;
  /** It was stopped once: tickets of that time tell so. */
  wasStopped = false;
  /** Ended for good: crashed, replaced, stopped for the last time. */
  isOver = false;
  /** Resolves when the process dies: what it was about then never settles. */
  readonly died: Promise<void>;
  readonly #job: Job;
  #starts = 0;
  #sayDied = (): void => {};
  #frozen: { until: Promise<void>; thaw: () => void } | undefined;

  constructor(world: World, { replicaId, number, adopts, job }: LifeOptions) {
    this.world = world;
    this.replicaId = replicaId;
    this.name = `${replicaId}/${number}`;
    this.#job = job;
    this.coordinator = new MemoryCoordinator({
      mesh: world.mesh,
      replicaId,
      leaseMs: world.times.leaseMs,
      ticketTtlMs: world.times.ticketTtlMs,
      maxAttempts: MAX_ATTEMPTS,
    });
    this.died = new Promise((resolve) => {
      this.#sayDied = resolve;
    });
    this.#listen();
    if (adopts) this.coordinator.onAdopted((message) => job.adopt(this, message));
  }

  #listen(): void {
    const { coordinator, world } = this;
    const tell = (what: string): void => {
      world.count(`seen: ${what}`);
      world.note(`${this.name} ${what}`);
    };
    coordinator.on('superseded', () => {
      tell('superseded');
      if (!this.suffered.isolation && !this.suffered.serverChange) {
        world.violate(`${this.name} was presumed dead although nothing kept it from its heartbeats`);
      }
    });
    coordinator.on('replaced', () => {
      tell('replaced');
      this.isOver = true;
      // What a process does that learns of it: it lets go of its connections.
      void this.call('stop', () => coordinator.stop());
    });
    coordinator.on('quarantine', () => tell('quarantine'));
    coordinator.on('unavailable', () => {
      tell('unavailable');
      this.mayBeUnavailable('said so');
    });
    coordinator.on('available', () => tell('available'));
    coordinator.on('lost', ({ reason }) => tell(`lost ${reason}`));
    coordinator.on('elected', () => tell('elected'));
    coordinator.on('parked', () => tell('parked'));
    coordinator.on('ticketLeaked', () => tell('ticketLeaked'));
    coordinator.on('wakeDegraded', () => tell('wakeDegraded'));
    coordinator.on('late', () => tell('late'));
  }

  /** Busy is never reported as down. */
  mayBeUnavailable(what: string): void {
    if (this.suffered.isolation || this.suffered.serverChange) return;
    this.world.violate(`${this.name} ${what}: unavailable, although nothing kept it from the store`);
  }

  get isFrozen(): boolean {
    return this.#frozen !== undefined;
  }

  get isRunning(): boolean {
    return !this.isFrozen;
  }

  async start(workers: number): Promise<void> {
    const { coordinator, world } = this;
    world.note(`${this.name} starts`);
    this.#starts += 1;
    const start = this.#starts;
    this.isStarting = true;
    try {
      await this.call('start', () => coordinator.start());
    } catch (error) {
      // One that was stopped may have been started again since.
      if (start === this.#starts) this.isOver = true;
      world.note(`${this.name} did not start: ${String(error)}`);
      return;
    } finally {
      if (start === this.#starts) this.isStarting = false;
    }
    for (let n = 0; n < workers; n++) void this.#task(() => this.#job.work(this));
  }

  /** The process stops as by SIGSTOP, or with its host; `thaw` lets it go on. */
  freeze(how: 'freeze' | 'suspend'): void {
    if (this.isOver || this.#frozen !== undefined) return;
    this.world.mesh[how](this.coordinator);
    let thaw = (): void => {};
    const until = new Promise<void>((resolve) => {
      thaw = resolve;
    });
    this.#frozen = { until, thaw };
  }

  thaw(first: 'arrivals' | 'timers'): void {
    const frozen = this.#frozen;
    if (frozen === undefined || this.isOver) return;
    this.#frozen = undefined;
    this.world.mesh.thaw(this.coordinator, { first });
    frozen.thaw();
  }

  /** The process is gone, and nobody is told. */
  die(): void {
    this.freeze('freeze');
    this.#end();
  }

  /** Leaves in good order. */
  async stop(): Promise<void> {
    this.isStopping = true;
    this.wasStopped = true;
    await this.call('stop', () => this.coordinator.stop());
    this.world.note(`${this.name} stopped`);
  }

  /** Ends at once; the store hears of it at once, too. */
  crash(): void {
    if (this.isOver) return;
    this.#end();
    this.coordinator.crash();
  }

  #end(): void {
    this.isOver = true;
    this.#sayDied();
    this.world.record({ kind: 'gone', at: this.world.now(), replica: this.name });
  }

  /** Sleeps as code of this process does: not at all while it is frozen, then on. */
  async sleep(ms: number): Promise<void> {
    await this.world.clock.sleep(ms);
    while (this.#frozen !== undefined) await this.#frozen.until;
    this.world.sample();
  }

  /** A call of the contract: counted until it settles. */
  async call<T>(what: string, run: () => Promise<T>): Promise<T> {
    const entry = { what, sinceMs: this.world.now() };
    this.pending.add(entry);
    try {
      return await run();
    } finally {
      this.pending.delete(entry);
    }
  }

  async #task(run: () => Promise<void>): Promise<void> {
    try {
      await run();
    } catch (error) {
      this.world.violate(`${this.name} failed in a way that the contract does not know: ${String(error)}`);
    }
  }
}
