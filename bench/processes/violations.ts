import type { Violations } from '../lib/Checker.js';
import type { Turn } from './TurnLog.js';

/**
 * What went wrong in a run, by the clock that all processes share. Disorder: a message that started although one of its
 * chat, whose place was sure before it was even called, had not; or twice, or under a fence that did not grow. Where it is
 * not known when a place was sure: one that started after a later one of the same process.
 */
export function violationsOf(turns: readonly Turn[], submitted: number): Violations {
  const sum = { overlaps: 0, disorder: 0, losses: submitted };
  for (const chat of byChat(turns)) {
    let endedUs = 0;
    let lastCalledUs = 0;
    let lastFence = 0;
    const seen = new Set<string>();
    const lastNumbers = new Map<number, number>();
    for (const turn of chat) {
      const name = `${turn.from}:${turn.number}`;
      const lastNumber = lastNumbers.get(turn.from) ?? 0;
      if (turn.startedUs < endedUs) sum.overlaps += 1;
      // One that started before was called only after this one had its place.
      const isOvertaken = turn.placedUs === 0 ? turn.number < lastNumber : turn.placedUs < lastCalledUs;
      if (isOvertaken || seen.has(name)) sum.disorder += 1;
      if (turn.fence !== 0 && turn.fence <= lastFence) sum.disorder += 1;
      if (!seen.has(name)) sum.losses -= 1;
      seen.add(name);
      lastNumbers.set(turn.from, Math.max(lastNumber, turn.number));
      endedUs = Math.max(endedUs, turn.endedUs);
      lastCalledUs = Math.max(lastCalledUs, turn.calledUs);
      lastFence = Math.max(lastFence, turn.fence);
    }
  }
  return sum;
}

/** Messages that started after one of their chat that was called this much later, by whichever process. */
const OVERTAKEN_US = 20_000;

/**
 * How many messages were overtaken by one that came clearly later. Locks that poll promise no order, so nothing that they
 * do is disorder; this is what their users see. Not meant for loads in which all messages come at once.
 */
export function overtakenOf(turns: readonly Turn[]): number {
  let overtaken = 0;
  for (const chat of byChat(turns)) {
    let lastCalledUs = Number.NEGATIVE_INFINITY;
    for (const { calledUs } of chat) {
      if (calledUs < lastCalledUs - OVERTAKEN_US) overtaken += 1;
      lastCalledUs = Math.max(lastCalledUs, calledUs);
    }
  }
  return overtaken;
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
