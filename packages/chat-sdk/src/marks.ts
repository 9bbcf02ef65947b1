/** So many of the newest marks are kept of a chat. */
const MOST = 100;

/** What a chat's state holds of the SDK's marks: each with the time when it is over, in milliseconds since 1970. */
export type Marks = [mark: string, until: number][];

/**
 * Adds a mark; undefined when it is there already. What is over, and what is too many, goes. Redeliveries need no mark:
 * the coordinator knows the ids of all that it took in.
 */
export function withMark(marks: Marks, mark: string, ttlMs: number, nowMs: number): Marks | undefined {
  const lasting = marks.filter(([, until]) => until > nowMs);
  if (lasting.some(([each]) => each === mark)) return undefined;
  return [...lasting, [mark, nowMs + ttlMs] as [string, number]].slice(-MOST);
}
