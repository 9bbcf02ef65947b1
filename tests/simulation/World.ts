import { type HistoryEvent, MemoryMesh, seededRandom, VirtualClock } from '@botmesh/core/testing';
import { type Coverage, count } from './coverage.js';
import { type Times, timesOf } from './times.js';

/** A process, as the oracle sees it. */
export interface Believer {
  readonly name: string;
  /** It is not frozen: its code may run, and act on what it believes. */
  readonly isRunning: boolean;
}

/** A key believed in by a process. */
export interface Belief {
  readonly life: Believer;
  readonly key: string;
  readonly fence: number;
  readonly signal: AbortSignal | undefined;
  assertHeld(): void;
}

export interface WorldOptions {
  readonly seed: number;
  readonly isTraced: boolean;
}

/** One run: the clock, the mesh, chance, everything that happened, and what was wrong with it. */
export class World {
  readonly seed: number;
  readonly clock: VirtualClock;
  readonly mesh: MemoryMesh;
  readonly times: Times;
  readonly random: () => number;
  readonly history: HistoryEvent[] = [];
  readonly violations: string[] = [];
  readonly coverage: Coverage = {};
  readonly trace: string[] = [];
  /** Sampling makes replicas look at their clocks. Where it is off, they must notice by themselves. */
  readonly samplesAlways: boolean;
  readonly #beliefs = new Map<string, Set<Belief>>();
  readonly #newestWrite = new Map<string, number>();
  readonly #lastHolder = new Map<string, Believer>();
  readonly #isTraced: boolean;
  /** No new work is begun any more, and what is held is let go soon. */
  isDraining = false;
  /** How many tickets of each key nobody will ever acquire or give up. */
  readonly forgotten = new Map<string, number>();

  constructor({ seed, isTraced }: WorldOptions) {
    this.seed = seed;
    this.#isTraced = isTraced;
    this.random = seededRandom(seed * 2_654_435_761);
    this.clock = new VirtualClock({ seed });
    this.mesh = new MemoryMesh({ clock: this.clock, seed, shards: this.chance(0.15) ? 2 : 1 });
    this.times = timesOf(12_000);
    this.samplesAlways = this.chance(0.5);
  }

  now(): number {
    return this.clock.monotonicMs();
  }

  below(limit: number): number {
    return Math.floor(this.random() * limit);
  }

  between(least: number, most: number): number {
    return least + this.random() * (most - least);
  }

  chance(share: number): boolean {
    return this.random() < share;
  }

  oneOf<T>(list: readonly T[]): T {
    return list[this.below(list.length)] as T;
  }

  note(text: string | (() => string)): void {
    if (!this.#isTraced) return;
    this.trace.push(`${this.now().toFixed(1).padStart(9)} ${typeof text === 'string' ? text : text()}`);
  }

  count(name: string): void {
    count(this.coverage, name);
  }

  violate(text: string): void {
    this.note(`VIOLATION ${text}`);
    this.violations.push(`${text} (at ${this.now().toFixed(1)} ms)`);
  }

  record(event: HistoryEvent): void {
    this.history.push(event);
    this.note(() => JSON.stringify(event));
  }

  // ── What replicas believe ──────────────────────────────────────────────────────────────────────────────────────────

  /** A replica was granted a key: nobody else who can run may believe in it. */
  granted(belief: Belief): void {
    const others = this.#beliefs.get(belief.key) ?? new Set();
    for (const other of others) this.#mustNotBelieve(other, belief);
    others.add(belief);
    this.#beliefs.set(belief.key, others);
    if (this.#lastHolder.get(belief.key) !== undefined && this.#lastHolder.get(belief.key) !== belief.life) {
      this.count('seen: handover between replicas');
    }
    this.#lastHolder.set(belief.key, belief.life);
    this.sample();
  }

  #mustNotBelieve(other: Belief, belief: Belief): void {
    if (!other.life.isRunning) return;
    const isHeld = passes(other);
    const isSignalled = other.signal?.aborted ?? true;
    if (!isHeld && isSignalled) return;
    const how = isHeld ? 'assertHeld passes' : 'its signal has not aborted';
    const [now, before] = [belief, other].map((each) => `${each.life.name} (fence ${each.fence})`);
    this.violate(`${now} was granted ${belief.key} while ${before} still believes in it: ${how}`);
  }

  ended(belief: Belief): void {
    this.#beliefs.get(belief.key)?.delete(belief);
  }

  holds(life: Believer): boolean {
    for (const beliefs of this.#beliefs.values()) for (const belief of beliefs) if (belief.life === life) return true;
    return false;
  }

  /** Asks every replica that can run what it believes. */
  sample(): void {
    if (!this.samplesAlways) return;
    for (const beliefs of this.#beliefs.values()) {
      if (beliefs.size < 2) continue;
      const believers = [...beliefs].filter((belief) => belief.life.isRunning && passes(belief));
      if (believers.length > 1) {
        this.violate(
          `believed in at once: ${believers.map((b) => `${b.key} by ${b.life.name} (fence ${b.fence})`).join(', ')}`,
        );
      }
    }
  }

  /** A side effect on something that takes fences. */
  write(belief: Belief): void {
    const newest = this.#newestWrite.get(belief.key) ?? 0;
    const isHeld = passes(belief);
    const at = this.now();
    const { key, fence, life } = belief;
    if (isHeld) this.record({ kind: 'held', at, replica: life.name, key, fence });
    const accepted = fence >= newest;
    if (accepted) this.#newestWrite.set(key, fence);
    else if (isHeld) this.violate(`${life.name} holds ${key} under fence ${fence}, but ${newest} has written`);
    this.record({ kind: 'written', at, replica: life.name, key, fence, accepted });
  }
}

function passes(belief: Belief): boolean {
  try {
    belief.assertHeld();
    return true;
  } catch {
    return false;
  }
}
