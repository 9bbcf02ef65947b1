import { checkHistory, type HistoryEvent, seededRandom, type Violation } from '@botmesh/core/testing';
import type { Backend, Site } from '../backends/backend.js';
import { Fleet } from '../fleet/Fleet.js';
import { nowMs } from '../now.js';
import { pause } from '../until.js';
import { Nemesis, type Struck } from './Nemesis.js';

export interface TrialOptions {
  readonly backend: Backend;
  readonly seed: number;
  readonly durationMs: number;
  readonly replicas: number;
  readonly keys: number;
  readonly leaseMs: number;
  /** The control: replicas that go on believing in what they have lost. It ends when they are found out. */
  readonly planted: boolean;
  /** Ends it early, in good order. */
  readonly signal?: AbortSignal;
  /** When the replicas are at work, and from then on now and again. */
  readonly onProgress?: (progress: Progress) => void;
}

export interface Progress {
  readonly sinceMs: number;
  readonly turns: number;
  readonly faults: number;
}

/** What one trial came to. Times are of the common clock. */
export interface Trial {
  readonly backend: string;
  readonly seed: number;
  readonly leaseMs: number;
  readonly planted: boolean;
  readonly startedAt: number;
  /** When the replicas were at work, and the harm began. */
  readonly harmedAt: number;
  readonly endedAt: number;
  /** From when on nobody was harmed any more. */
  readonly healedAt: number;
  readonly events: readonly HistoryEvent[];
  readonly struck: readonly Struck[];
  readonly violations: readonly Violation[];
  /** Why it could not be judged to its end: the mesh did not go on, or did not come to rest, or a replica failed. */
  readonly failure?: string;
}

const PROGRESS_MS = 10_000;
/** For the mesh to go on, and to come to rest, on the slowest machine. */
const RECOVERY_MS = 60_000;
/** Nothing is parked: how often a message was tried is the harm's doing. */
const MAX_ATTEMPTS = 1000;

/**
 * Replicas at work on a few keys while they, their ways and the servers are harmed; then peace, in which every ticket must come
 * to its end. Everything it started is gone when it resolves.
 */
export async function tryBackend(options: TrialOptions): Promise<Trial> {
  const { backend, leaseMs, planted, seed } = options;
  const random = seededRandom(seed);
  await using site = await backend.open({ seed, random, harm: seed % 2 === 0 ? 'clock' : 'data' });
  await using fleet = fleetOn(site, options);
  await using nemesis = new Nemesis({ seed, leaseMs, site, fleet });
  const startedAt = nowMs();
  const course = { harmedAt: startedAt, healedAt: startedAt, failure: undefined as string | undefined };
  const tell = (): void =>
    options.onProgress?.({ sinceMs: nowMs() - startedAt, turns: fleet.grants, faults: nemesis.struck.length });
  let progress: ReturnType<typeof setInterval> | undefined;
  const onAbort = (): void => nemesis.end();
  options.signal?.addEventListener('abort', onAbort);
  let violations: readonly Violation[] = [];
  try {
    await Promise.all(Array.from({ length: options.replicas }, () => nemesis.join()));
    await fleet.isAlive(RECOVERY_MS);
    course.harmedAt = nowMs();
    tell();
    progress = setInterval(tell, PROGRESS_MS);
    const isInterrupted = (): boolean => options.signal?.aborted === true;
    const harmed = nemesis.harm(isInterrupted() ? 0 : options.durationMs);
    if (planted) await untilFoundOut(fleet, nemesis);
    await harmed;
    course.healedAt = nowMs();
    if (planted || isInterrupted()) violations = checkHistory(fleet.events());
    else violations = await comeToRest(fleet);
  } catch (error) {
    if (course.healedAt === startedAt) course.healedAt = nowMs();
    course.failure = messageOf(error);
    violations = checkHistory(fleet.events());
  } finally {
    clearInterval(progress);
    options.signal?.removeEventListener('abort', onAbort);
  }
  const { failure, harmedAt, healedAt } = course;
  return {
    backend: backend.name,
    seed,
    leaseMs,
    planted,
    startedAt,
    harmedAt,
    healedAt,
    endedAt: nowMs(),
    events: fleet.events(),
    struck: nemesis.struck,
    violations,
    ...(failure === undefined ? {} : { failure }),
  };
}

function fleetOn(site: Site, { backend, keys, leaseMs, planted, seed }: TrialOptions): Fleet {
  return new Fleet({
    backend: backend.client,
    seed,
    leaseMs,
    keys,
    lanes: 2,
    longTurnMs: 1.2 * leaseMs,
    forgets: planted,
    coordinator: { ...site.coordinator, maxAttempts: MAX_ATTEMPTS },
    ...(site.shards === undefined ? {} : { shards: site.shards }),
    ...(site.environment === undefined ? {} : { environment: site.environment }),
  });
}

async function comeToRest(fleet: Fleet): Promise<readonly Violation[]> {
  await fleet.isAlive(RECOVERY_MS);
  return (await fleet.finish(RECOVERY_MS)).violations;
}

/** Whether the planted fault shows: two that held one key at once. */
export function isFoundOut(violations: readonly Violation[]): boolean {
  return violations.some(({ rule }) => rule === 'exclusion');
}

async function untilFoundOut(fleet: Fleet, nemesis: Nemesis): Promise<void> {
  while (!nemesis.isOver && !isFoundOut(checkHistory(fleet.events()))) await pause(500);
  nemesis.end();
}

function messageOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return error.cause === undefined ? error.message : `${error.message} (${messageOf(error.cause)})`;
}
