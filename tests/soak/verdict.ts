// What a long run must have come to, judged by what its processes noted. Pure, so that it can be shown to find what it must.
import type { Noted } from '../cluster/Diary.js';

export interface Verdict {
  /** Messages that were taken in. */
  readonly received: number;
  /** Different messages that came to their end. */
  readonly handled: number;
  /** Messages that were begun again because their handler had not ended: what is promised, and no more. */
  readonly begunAgain: number;
  /** Messages of which a reply was sent more than once, all of them begun again. */
  readonly doubled: number;
  /** What broke a promise, a sentence each. */
  readonly faults: readonly string[];
}

/** Messages are numbered from 1 in each chat, and each reply says after which message its own was handled. */
export function judge(lines: readonly Noted[], taken: ReadonlyMap<string, number>): Verdict {
  const chats = new Map<string, Noted[]>();
  for (const line of lines) {
    if (line.chat === undefined) continue;
    const list = chats.get(line.chat);
    if (list === undefined) chats.set(line.chat, [line]);
    else list.push(line);
  }
  const faults: string[] = [];
  const sum = { received: 0, handled: 0, begunAgain: 0, doubled: 0 };
  for (const [chat, count] of taken) {
    const found = judgeChat(chat, count, chats.get(chat) ?? [], faults);
    sum.received += count;
    sum.handled += found.handled;
    sum.begunAgain += found.begunAgain;
    sum.doubled += found.doubled;
  }
  return { ...sum, faults };
}

function judgeChat(
  chat: string,
  count: number,
  lines: readonly Noted[],
  faults: string[],
): Omit<Verdict, 'received' | 'faults'> {
  const ended = new Set<string>();
  const begun = new Map<string, number>();
  const sent = new Map<string, number>();
  let newest = 0;
  for (const [at, { event, id = '', text = '', how, replicaId }] of lines.entries()) {
    if (event === 'begun') {
      begun.set(id, (begun.get(id) ?? 0) + 1);
      // A frozen process may note on waking what it had begun before: then it is told at once that the turn is gone.
      if (isCutOff(lines, at)) continue;
      if (ended.has(id)) faults.push(`${chat}: ${replicaId} began message ${id} again after it had ended.`);
      if (Number(id) < newest) faults.push(`${chat}: ${replicaId} began message ${id} after message ${newest}.`);
      newest = Math.max(newest, Number(id));
    } else if (event === 'ended') {
      if (how !== 'handled') faults.push(`${chat}: message ${id} was ${how}.`);
      ended.add(id);
    } else if (event === 'sent') {
      const [own = '', before = ''] = text.split(' after ');
      const expected = own === '1' ? 'none' : `${Number(own) - 1}`;
      if (before !== expected) faults.push(`${chat}: message ${own} was handled after ${before}, not ${expected}.`);
      sent.set(own, (sent.get(own) ?? 0) + 1);
    }
  }
  for (let id = 1; id <= count; id++) {
    if (!sent.has(`${id}`)) faults.push(`${chat}: message ${id} was taken in and never answered.`);
  }
  const doubled = [...sent].filter(([, times]) => times > 1).map(([id]) => id);
  for (const id of doubled) {
    if (begun.get(id) === 1) faults.push(`${chat}: message ${id} was answered twice in one attempt.`);
  }
  return {
    handled: [...sent.keys()].length,
    begunAgain: [...begun.values()].filter((times) => times > 1).length,
    doubled: doubled.length,
  };
}

/** Whether the attempt that began at `at` lost its turn before it had sent anything. */
function isCutOff(lines: readonly Noted[], at: number): boolean {
  const { id, replicaId } = lines[at] as Noted;
  for (const line of lines.slice(at + 1)) {
    if (line.replicaId !== replicaId) continue;
    if (line.event === 'aborted' && line.id === id) return true;
    if (line.event === 'sent' && line.text?.startsWith(`${id} after `)) return false;
    if (line.event === 'begun' && line.id === id) return false;
  }
  return false;
}
