import { BadInputError, ConfigError, shown } from '../errors.js';
import { type Clock, systemClock } from '../time/clock.js';
import { makeReplicaId } from './replica-id.js';
import { type Timing, timing } from './timing.js';

/** Options that every coordinator takes, whatever its backend. Durations are in milliseconds. */
export interface CoordinatorOptions {
  /** Unique among the replicas that share the backend. Default: host, pid and a random part. */
  replicaId?: string;
  /** How long a replica counts as alive after its last heartbeat. The same for all replicas. Default 12,000. */
  leaseMs?: number;
  /** From one heartbeat to the next: at most a sixth of the lease, which is the default. */
  heartbeatMs?: number;
  /** How long a ticket may stand at the head unclaimed before it is given back. Default 60,000. */
  ticketTtlMs?: number;
  /** After how long a hold is told of by the `held` event. Default 60,000. */
  heldWarnMs?: number;
  /** How often a message is tried before it is parked. Default 5. */
  maxAttempts?: number;
  /** How long the ids of finished messages are remembered. Default one day. */
  dedupeMs?: number;
  /** How long a message may be, with its key and id, in bytes of UTF-8. Longer ones are refused at once. Default 1 MiB. */
  maxBodyBytes?: number;
  /** Where time comes from. For tests. */
  clock?: Clock;
}

export interface Settings {
  readonly replicaId: string;
  readonly timing: Timing;
  readonly ticketTtlMs: number;
  readonly heldWarnMs: number;
  readonly maxAttempts: number;
  readonly dedupeMs: number;
  readonly maxBodyBytes: number;
  readonly clock: Clock;
}

export const OPTION_NAMES: { readonly [Name in keyof Required<CoordinatorOptions>]: true } = {
  replicaId: true,
  leaseMs: true,
  heartbeatMs: true,
  ticketTtlMs: true,
  heldWarnMs: true,
  maxAttempts: true,
  dedupeMs: true,
  maxBodyBytes: true,
  clock: true,
};

const DAY_MS = 86_400_000;
const MAX_LEASE_MS = 3_600_000;
const MIN_LEASE_MS = 100;
const MIB = 2 ** 20;

/** @throws ConfigError naming the option, its value and the range */
export function settle(options: CoordinatorOptions): Settings {
  const clock = options.clock ?? systemClock;
  const leaseMs = within('leaseMs', options.leaseMs ?? 12_000, MIN_LEASE_MS, MAX_LEASE_MS);
  const heartbeatMs = within('heartbeatMs', options.heartbeatMs ?? leaseMs / 6, leaseMs / 60, leaseMs / 6);
  return {
    replicaId: replicaIdOf(options, clock),
    timing: timing(leaseMs, heartbeatMs),
    ticketTtlMs: within('ticketTtlMs', options.ticketTtlMs ?? 60_000, 1, DAY_MS),
    heldWarnMs: within('heldWarnMs', options.heldWarnMs ?? 60_000, 1, 365 * DAY_MS),
    maxAttempts: whole('maxAttempts', options.maxAttempts ?? 5, 1, 1000),
    dedupeMs: within('dedupeMs', options.dedupeMs ?? DAY_MS, 0, 365 * DAY_MS),
    maxBodyBytes: whole('maxBodyBytes', options.maxBodyBytes ?? MIB, 1, 256 * MIB),
    clock,
  };
}

function replicaIdOf(options: CoordinatorOptions, clock: Clock): string {
  const { replicaId } = options;
  if (replicaId === undefined) return makeReplicaId(clock);
  if (typeof replicaId === 'string' && replicaId.length > 0 && replicaId.length <= 256) return replicaId;
  throw new ConfigError(`replicaId is ${shown(replicaId)}: expected a string of 1 to 256 characters, or nothing.`);
}

export function within(name: string, value: unknown, min: number, max: number): number {
  if (typeof value === 'number' && value >= min && value <= max) return value;
  throw new ConfigError(`${name} is ${shown(value)}: expected a number from ${min} to ${max}.`);
}

export function whole(name: string, value: unknown, min: number, max: number): number {
  if (Number.isSafeInteger(value)) return within(name, value, min, max);
  throw new ConfigError(`${name} is ${shown(value)}: expected a whole number from ${min} to ${max}.`);
}

export function text(name: string, value: unknown): string {
  if (typeof value === 'string') return value;
  throw new BadInputError(`${name} is ${shown(value)}: expected a string.`);
}
