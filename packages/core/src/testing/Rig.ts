import type { MeshConfig, Push, Store } from '../coordination/store.js';
import type { Clock } from '../time/clock.js';
import { Link, type LinkCounts, type RequestKind, type StrikeRate, type Way } from './Link.js';
import { ReplicaClock } from './ReplicaClock.js';

export interface RigOptions {
  clock: Clock;
  random?: () => number;
  answersAtOnce?: boolean;
}

/** One replica’s rig in a laboratory: its clock and its links (one for each shard), and every fault of them. */
export class Rig {
  readonly clock: ReplicaClock;
  readonly links: readonly Link[];

  constructor(stores: readonly Store[], options: RigOptions) {
    this.clock = new ReplicaClock(options.clock);
    this.links = stores.map((store) => new Link(store, options));
  }

  /** What went over all links since the start. */
  get counts(): LinkCounts {
    return addUp(this.links.map((link) => link.counts));
  }

  /** Stops the replica's process, as SIGSTOP does. */
  freeze(): void {
    this.clock.freeze();
    for (const link of this.links) link.freeze();
  }

  /** Suspends the replica's host: its monotonic clock stands still too. */
  suspend(): void {
    this.clock.suspend();
    for (const link of this.links) link.freeze();
  }

  /** Ends `freeze` or `suspend`. What arrived meanwhile is heard before timers that came due, or after them. */
  thaw({ first = 'arrivals' }: { first?: 'arrivals' | 'timers' } = {}): void {
    if (first === 'timers') this.clock.thaw();
    for (const link of this.links) link.thaw();
    if (first === 'arrivals') this.clock.thaw();
  }

  cut(way?: Way): void {
    for (const link of this.links) link.cut(way);
  }

  heal(way?: Way): void {
    for (const link of this.links) link.heal(way);
  }

  delay(range: { minMs: number; maxMs: number }): void {
    for (const link of this.links) link.delay(range.minMs, range.maxMs);
  }

  loseAnswers(rate: StrikeRate): void {
    for (const link of this.links) link.loseAnswers(rate);
  }

  repeatRequests(rate: StrikeRate, afterMs?: number): void {
    for (const link of this.links) link.repeatRequests(rate, afterMs);
  }

  dropPushes(rate: StrikeRate): void {
    for (const link of this.links) link.dropPushes(rate);
  }

  pretend(config: Partial<MeshConfig>): void {
    for (const link of this.links) link.pretend(config);
  }

  /** The process is gone: nothing of it runs or is sent any more. The store learns of it when the lease is over. */
  kill(): void {
    this.clock.kill();
    for (const link of this.links) link.kill();
  }
}

function addUp(all: readonly LinkCounts[]): LinkCounts {
  const requests = { join: 0, apply: 0, beat: 0, leave: 0, waiting: 0, pace: 0, subscribe: 0, inspect: 0 };
  const pushes = { grant: 0, look: 0, replaced: 0, ping: 0 };
  for (const one of all) {
    for (const kind of Object.keys(requests) as RequestKind[]) requests[kind] += one.requests[kind];
    for (const kind of Object.keys(pushes) as Push['kind'][]) pushes[kind] += one.pushes[kind];
  }
  return { requests, pushes };
}
