/**
 * The durations of the protocol, all from the lease. They are safe while trust + gap ≤ lease: see
 * docs/decisions/timing.md.
 */
export interface Timing {
  /** An epoch whose last heartbeat is older than this may be declared dead. */
  readonly leaseMs: number;
  /** From the start of one heartbeat to the start of the next. */
  readonly beatMs: number;
  /** The longest gap between its own heartbeats with which a replica may still bear witness to a death. */
  readonly gapMs: number;
  /** How long a replica believes in what it holds after the moment before its last answered heartbeat. */
  readonly trustMs: number;
  /** How long a store that may have lost writes grants nothing: every older trust is over by then. */
  readonly quarantineMs: number;
  /** How long one request may take before it is made again. */
  readonly attemptMs: number;
}

export function timing(leaseMs: number, beatMs = leaseMs / 6): Timing {
  const trustMs = (2 * leaseMs) / 3;
  return {
    leaseMs,
    beatMs,
    gapMs: leaseMs / 3,
    trustMs,
    quarantineMs: trustMs + leaseMs / 24,
    attemptMs: beatMs / 2,
  };
}

/** Links are taken to carry so many bytes in a millisecond, at least. */
const BYTES_PER_MS = 256;

/** How much longer than a short one a request of this length may take, in milliseconds. */
export function carryMs(length: number): number {
  return length / BYTES_PER_MS;
}
