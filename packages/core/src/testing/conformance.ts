import type { MeshConfig, StoreView } from '../coordination/store.js';
import type { AdoptedMessage, Coordinator, Inbox } from '../coordination/types.js';
import type { Clock } from '../time/clock.js';
import type { LinkCounts, StrikeRate, Way } from './Link.js';

/** One test of a suite, for any test runner: call `run`, unless `skip` tells why not. */
export interface ConformanceTest {
  readonly title: string;
  /** The number of the promise it tests; 0 for odd input and order of calls. */
  readonly promise: number;
  /** Rejects when the promise is broken. */
  readonly run: () => Promise<void>;
  /** Why it cannot be run on this subject. */
  readonly skip?: string;
}

/** What a server can be made to do. Tests that need a fault it does not list are skipped, with that reason. */
export type ServerFault = 'stepClock' | 'wipe' | 'restart' | 'rollback';

/** A backend under test. */
export interface ConformanceSubject {
  readonly name: string;
  /** Sets up an empty mesh, apart from every other one. It is closed after each test. */
  open(options?: { shards?: number; leaseMs?: number }): Promise<ConformanceMesh>;
  /** Default: none. */
  readonly faults?: readonly ServerFault[];
  /** Promises that the backend cannot keep, with the reason. */
  readonly lacks?: Readonly<Record<number, string>>;
}

/** A mesh to experiment on. */
export interface ConformanceMesh {
  readonly clock: Clock;
  /** The lease of its replicas. */
  readonly leaseMs: number;
  /** How much later than at once, or than a bound, something may come here: round trips, and the machine's own delays. */
  readonly slackMs: number;
  sleep(ms: number): Promise<void>;
  /** Runs a test's body; on a virtual clock it also moves the clock. */
  run<T>(body: () => Promise<T>): Promise<T>;
  /** A new replica, started unless told otherwise. */
  replica(options?: TestReplicaOptions): Promise<TestReplica>;
  readonly server: TestServer;
  /** What is on record, one view for each shard. */
  inspect(): Promise<readonly StoreView[]>;
  /** Ends all replicas and lets go of everything. */
  close(): Promise<void>;
}

export interface TestReplicaOptions {
  readonly replicaId?: string;
  readonly leaseMs?: number;
  readonly ticketTtlMs?: number;
  readonly heldWarnMs?: number;
  readonly maxAttempts?: number;
  readonly dedupeMs?: number;
  /** Registered before the start. */
  readonly onAdopted?: (message: AdoptedMessage) => void;
  /** Whether to start it. Default true. */
  readonly start?: boolean;
  /** Makes it join as a replica would that is set up so. */
  readonly pretend?: Partial<MeshConfig>;
}

/** A replica with its faults. They last until they are ended. */
export interface TestReplica {
  readonly coordinator: Coordinator & Inbox;
  /** Stops its process: no timer runs, nothing reaches or leaves it. Its clocks run on. */
  freeze(): void;
  /** Suspends its host: as `freeze`, and its monotonic clock stands still. */
  suspend(): void;
  /** Ends `freeze` and `suspend`. What arrived meanwhile is heard before timers that came due, or after them. */
  thaw(options?: { first?: 'arrivals' | 'timers' }): void;
  cut(way?: Way): void;
  heal(way?: Way): void;
  delay(range: { minMs: number; maxMs: number }): void;
  loseAnswers(rate: StrikeRate): void;
  repeatRequests(rate: StrikeRate, afterMs?: number): void;
  dropPushes(rate: StrikeRate): void;
  /** Sets its wall clock forward or back. */
  stepWall(ms: number): void;
  /** Its process is gone. The store learns of it by the lease only. */
  crash(): void;
  /** Whether it is frozen or suspended: none of its code may be called now. */
  readonly isFrozen: boolean;
  /** What went over its links since the start. */
  readonly counts: LinkCounts;
  /** How many timers it has set. */
  readonly timers: number;
}

/** The faults that `ConformanceSubject.faults` lists. */
export interface TestServer {
  /** Moves the server's clock, forward or back. */
  stepClock?(ms: number): void | Promise<void>;
  /** Loses all data. */
  wipe?(): void | Promise<void>;
  /** Restarts and keeps the data. */
  restart?(): void | Promise<void>;
  /** Keeps a copy of the data; calling the result loses what came after. */
  snapshot?(): RollBack | Promise<RollBack>;
}

export type RollBack = () => void | Promise<void>;
