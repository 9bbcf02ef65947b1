export interface Times {
  readonly leaseMs: number;
  readonly beatMs: number;
  readonly trustMs: number;
  readonly quarantineMs: number;
  readonly ticketTtlMs: number;
}

/** The protocol's durations, written down a second time: the simulation must not take them from what it tests. */
export function timesOf(leaseMs: number): Times {
  return {
    leaseMs,
    beatMs: leaseMs / 6,
    trustMs: (2 * leaseMs) / 3,
    quarantineMs: (2 * leaseMs) / 3 + leaseMs / 24,
    ticketTtlMs: leaseMs / 3,
  };
}
