/**
 * Whether one who has `load` of `total` accounts takes another: its share is not full, or nobody has fewer. Who takes by this
 * rule, and gives by the next, ends with as many as any other, give or take one.
 */
export function isToTake(load: number, others: readonly number[], total: number): boolean {
  return load < Math.floor(total / (others.length + 1)) || others.every((other) => load <= other);
}

/** Whether one who has `load` accounts gives one up: somebody has at least two fewer. */
export function isToGive(load: number, others: readonly number[]): boolean {
  return others.some((other) => load >= other + 2);
}
