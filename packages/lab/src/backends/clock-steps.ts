const HOUR_MS = 3_600_000;

/** By how much a clock is moved: a little or a lot, forward or back. */
export function clockStepMs(random: () => number): number {
  const sizes = [500, 3000, 10_000, HOUR_MS, 24 * HOUR_MS];
  const size = sizes[Math.floor(random() * sizes.length)]!;
  return (random() < 0.5 ? -1 : 1) * (0.5 + random()) * size;
}
