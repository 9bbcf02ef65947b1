/** A figure measured several times: its median, and how far the rounds lay apart. */
export interface Spread {
  readonly median: number;
  readonly min: number;
  readonly max: number;
}

export function spread(values: readonly number[]): Spread {
  const sorted = Float64Array.from(values).sort();
  return { median: quantile(sorted, 0.5), min: sorted[0] ?? Number.NaN, max: sorted.at(-1) ?? Number.NaN };
}

/** The value below which `share` of the sorted values lie, between two of them where need be. */
export function quantile(sorted: ArrayLike<number>, share: number): number {
  if (sorted.length === 0) return Number.NaN;
  const at = (sorted.length - 1) * share;
  const below = sorted[Math.floor(at)]!;
  const above = sorted[Math.ceil(at)]!;
  return below + (above - below) * (at - Math.floor(at));
}

/** The spread of `over` by `under`, round by round: rounds of one run share the machine's mood. */
export function ratio(over: readonly number[], under: readonly number[]): Spread {
  return spread(over.map((value, round) => value / under[round]!));
}
