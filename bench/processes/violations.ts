import type { Violations } from '../lib/Checker.js';
import type { Turn } from './TurnLog.js';

/**
 * What went wrong in a run, by the clock that all processes share. Disorder: a message that started although one of its
 * chat, whose place was sure before it was even called, had not; or twice, or under a fence that did not grow.
 */
export function violationsOf(turns: readonly Turn[], submitted: number): Violations {
  const sum = { overlaps: 0, disorder: 0, losses: submitted };
  for (const chat of byChat(turns)) {
    let endedUs = 0;
    let lastCalledUs = 0;
    let lastFence = 0;
    const seen = new Set<string>();
    for (const turn of chat) {
      const name = `${turn.lane}:${turn.number}`;
      if (turn.startedUs < endedUs) sum.overlaps += 1;
      // One that started before was called only after this one had its place.
      if (turn.placedUs < lastCalledUs || seen.has(name)) sum.disorder += 1;
      if (turn.fence !== 0 && turn.fence <= lastFence) sum.disorder += 1;
      if (!seen.has(name)) sum.losses -= 1;
      seen.add(name);
      endedUs = Math.max(endedUs, turn.endedUs);
      lastCalledUs = Math.max(lastCalledUs, turn.calledUs);
      lastFence = Math.max(lastFence, turn.fence);
    }
  }
  return sum;
}

/** The turns of each chat, in the order in which they started. */
export function byChat(turns: readonly Turn[]): Turn[][] {
  const chats = new Map<number, Turn[]>();
  for (const turn of turns) {
    const chat = chats.get(turn.chat);
    if (chat === undefined) chats.set(turn.chat, [turn]);
    else chat.push(turn);
  }
  for (const chat of chats.values()) chat.sort((a, b) => a.startedUs - b.startedUs);
  return [...chats.values()];
}
