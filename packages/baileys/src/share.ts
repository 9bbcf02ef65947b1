/** Whether one who has `held` accounts takes another: nobody has fewer. */
export function isToTake(held: number, others: readonly number[]): boolean {
  return others.every((other) => held <= other);
}

/** Whether one who has `held` accounts gives one up: somebody has at least two fewer. */
export function isToGive(held: number, others: readonly number[]): boolean {
  return others.some((other) => held >= other + 2);
}
