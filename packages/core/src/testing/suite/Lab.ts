import type { ChatTurn, Leadership, Ticket } from '../../coordination/types.js';
import type { ConformanceMesh, TestReplica, TestReplicaOptions } from '../conformance.js';
import type { LinkCounts } from '../Link.js';
import { claim, nameOf } from './claims.js';

/** What became of a promise, as far as is known. */
export interface Outcome<T> {
  state: 'waiting' | 'resolved' | 'rejected';
  value?: T;
  /** The reason or code of the rejection. */
  error?: string;
  /** When it was settled, by the mesh's clock. */
  atMs?: number;
}

interface Holder {
  readonly replica: TestReplica;
  readonly held: Held;
}

type Held = { assertHeld(): void; readonly signal: AbortSignal };

/** A mesh with the protocol's durations, and with an eye on who believes to hold what. */
export class Lab {
  readonly mesh: ConformanceMesh;
  readonly leaseMs: number;
  readonly beatMs: number;
  readonly gapMs: number;
  readonly trustMs: number;
  readonly slackMs: number;
  readonly #holders = new Map<string, Holder[]>();

  constructor(mesh: ConformanceMesh) {
    this.mesh = mesh;
    this.leaseMs = mesh.leaseMs;
    this.beatMs = mesh.leaseMs / 6;
    this.gapMs = mesh.leaseMs / 3;
    this.trustMs = (2 * mesh.leaseMs) / 3;
    this.slackMs = mesh.slackMs;
  }

  /** Within this time of its death, a dead replica's keys are granted to the next (promise 8). */
  get deathBoundMs(): number {
    return this.leaseMs + this.beatMs + 500 + this.slackMs;
  }

  get nowMs(): number {
    return this.mesh.clock.monotonicMs();
  }

  sleep(ms: number): Promise<void> {
    return this.mesh.sleep(ms);
  }

  replica(options?: TestReplicaOptions): Promise<TestReplica> {
    return this.mesh.replica(options);
  }

  async replicas(count: number, options?: TestReplicaOptions): Promise<TestReplica[]> {
    return Promise.all(Array.from({ length: count }, () => this.mesh.replica(options)));
  }

  /** Reserves and acquires; whoever held the key before may not believe in it any more. */
  async take(replica: TestReplica, key: string): Promise<ChatTurn> {
    return this.acquire(replica, await replica.coordinator.reserve(key));
  }

  /** Takes a place and follows its turn. Resolves when the place is taken: whoever asks after that stands behind it. */
  async queue(replica: TestReplica, key: string): Promise<Outcome<ChatTurn>> {
    const ticket = await replica.coordinator.reserve(key);
    return this.follow(this.acquire(replica, ticket));
  }

  async acquire(replica: TestReplica, ticket: Ticket, options?: { timeoutMs?: number; signal?: AbortSignal }) {
    const turn = await replica.coordinator.acquireTurn(ticket, options);
    this.#hold(`key ${ticket.key}`, replica, turn);
    return turn;
  }

  async lead(replica: TestReplica, name: string, options?: { signal?: AbortSignal }): Promise<Leadership> {
    const leadership = await replica.coordinator.lead(name, options);
    this.#hold(`leadership ${name}`, replica, leadership);
    return leadership;
  }

  async tryLead(replica: TestReplica, name: string): Promise<Leadership | null> {
    const leadership = await replica.coordinator.tryLead(name);
    if (leadership !== null) this.#hold(`leadership ${name}`, replica, leadership);
    return leadership;
  }

  #hold(what: string, replica: TestReplica, held: Held): void {
    const holders = this.#holders.get(what) ?? [];
    this.#holders.set(what, holders);
    holders.push({ replica, held });
    claim(believes(held), `${what} was handed out already lapsed`);
    this.#claimOne(what, holders);
  }

  /**
   * At this moment nothing is believed to be held by two. Reads every holder's clocks, as it would itself; one that is
   * frozen believes nothing until it thaws, and calling into it would wake it.
   */
  claimExclusive(): void {
    for (const [what, holders] of this.#holders) this.#claimOne(what, holders);
  }

  #claimOne(what: string, holders: readonly Holder[]): void {
    const possible = holders.filter(({ replica, held }) => replica.isFrozen || believes(held));
    if (possible.length === 0) this.#holders.delete(what);
    else this.#holders.set(what, possible);
    const believers = possible.filter(({ replica }) => !replica.isFrozen).length;
    claim(believers <= 1, `${what} is held by ${believers} at once, as their holders believe`);
  }

  /** Sleeps for `ms`, and looks often whether anything is believed to be held by two. */
  async watch(ms: number, isEnough: () => boolean = () => false): Promise<void> {
    const untilMs = this.nowMs + ms;
    while (this.nowMs < untilMs && !isEnough()) {
      await this.sleep(Math.max(1, Math.min(this.leaseMs / 120, untilMs - this.nowMs)));
      this.claimExclusive();
    }
  }

  /** Follows a promise without failing when it rejects. */
  follow<T>(promise: Promise<T>): Outcome<T> {
    const outcome: Outcome<T> = { state: 'waiting' };
    promise.then(
      (value) => Object.assign(outcome, { state: 'resolved', value, atMs: this.nowMs }),
      (error: unknown) => Object.assign(outcome, { state: 'rejected', error: nameOf(error), atMs: this.nowMs }),
    );
    return outcome;
  }

  /** The promise's value; fails when it takes longer than `ms`. */
  async within<T>(ms: number, promise: Promise<T>, what: string): Promise<T> {
    const outcome = this.follow(promise);
    await Promise.race([promise.catch(() => {}), this.sleep(ms)]);
    claim(outcome.state !== 'waiting', `${what} took more than ${Math.round(ms)} ms`);
    return promise;
  }

  /** The promise's value; fails unless it comes with nothing but round trips to wait for. */
  async atOnce<T>(promise: Promise<T>, what: string): Promise<T> {
    return this.within(this.slackMs, promise, what);
  }

  /** What `call` gives, made again while it is refused as unavailable, for at most `ms`. */
  async onceAvailable<T>(ms: number, call: () => Promise<T>, what: string): Promise<T> {
    const untilMs = this.nowMs + ms;
    for (;;) {
      const leftMs = untilMs - this.nowMs;
      const outcome = this.follow(this.within(Math.max(0, leftMs), call(), what));
      await this.until(leftMs + this.slackMs, () => outcome.state !== 'waiting', what);
      if (outcome.state === 'resolved') return outcome.value as T;
      claim(outcome.error === 'unavailable', `${what} was rejected with ${outcome.error}`);
      await this.sleep(this.beatMs / 10);
    }
  }

  /** Waits for `holds` for at most `ms`. */
  async until(ms: number, holds: () => boolean, what: string): Promise<void> {
    await this.watch(ms, holds);
    claim(holds(), `${what}: not within ${Math.round(ms)} ms`);
  }

  /** Requests that `act` made `replica` send, and pushes it was sent meanwhile. */
  async counted(replica: TestReplica, act: () => Promise<unknown>): Promise<LinkCounts> {
    const before = structuredClone(replica.counts);
    await act();
    return since(before, replica.counts);
  }

  /** Resolves right after a heartbeat of `replica` was sent. */
  async nextBeat(replica: TestReplica): Promise<void> {
    const before = replica.counts.requests.beat;
    const untilMs = this.nowMs + this.leaseMs;
    while (replica.counts.requests.beat === before) {
      claim(this.nowMs < untilMs, 'a running replica sent no heartbeat for a whole lease');
      await this.sleep(Math.max(1, this.leaseMs / 1200));
    }
  }

  /** How many places are taken in all queues on record. */
  async places(): Promise<number> {
    const views = await this.mesh.inspect();
    return views.flatMap((view) => view.queues).reduce((sum, queue) => sum + queue.waiting + 1, 0);
  }
}

/** Whether a holder believes to hold, by its own clocks now. */
export function believes(held: Held): boolean {
  try {
    held.assertHeld();
    return !held.signal.aborted;
  } catch {
    return false;
  }
}

/** Why a hold was lost, once its signal has told. */
export function lossOf(held: Held): string | undefined {
  return held.signal.aborted ? nameOf(held.signal.reason) : undefined;
}

export function since(before: LinkCounts, after: LinkCounts): LinkCounts {
  const minus = <T extends Record<string, number>>(a: T, b: T): T =>
    Object.fromEntries(Object.entries(a).map(([kind, count]) => [kind, count - (b[kind] ?? 0)])) as T;
  return { requests: minus(after.requests, before.requests), pushes: minus(after.pushes, before.pushes) };
}
