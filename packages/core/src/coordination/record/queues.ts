/** The queues: who is next, who is skipped, who takes over a message, who is buried. */
import type { Push } from '../store.js';
import type { Entry, Message, Row } from './record.js';
import { configOf, type Step, stamp } from './step.js';

/** No answer hands out more messages than this. */
export const ADOPT_SHARE = 64;
/** A message that a replica died with is suspect from this attempt on, or from its last one. */
const SUSPECT_FROM = 3;
/** A suspect that has run for so many leases holds up no other: it may wait for that one's key. */
const TRIAL_LEASES = 5;

export function headOf(step: Step, key: string): Entry | undefined {
  return step.record.queues.get(key)?.at(0);
}

export function isGranted(step: Step, entry: Entry): boolean {
  return entry.fence !== 0 && entry.era === step.record.era;
}

/**
 * Brings the head of `key` to a live owner and grants it: skips the dead, hands their messages on. Every step that
 * changes a head ends here.
 */
export function settle(step: Step, key: string): void {
  const { record } = step;
  const queue = record.queues.get(key);
  if (queue === undefined) return;
  for (let head = queue.at(0); head !== undefined; head = queue.at(0)) {
    const owner = record.live.get(head.owner);
    if (owner !== undefined) {
      if (isGranted(step, head)) return;
      // A replaced replica may still believe in an old grant until it leaves or its lease is over.
      if (owner.replaced && head.fence !== 0) return;
      if (!owner.replaced) {
        if (record.quarantineMs === 0) grant(step, head, owner);
        return;
      }
    }
    if (head.message !== null && !passOn(step, head, head.message)) {
      if (head.message.suspect) record.suspects.add(key);
      else record.orphans.add(key);
      return;
    }
    if (head.message !== null) continue;
    queue.shift();
    owner?.tickets.delete(head.seq);
  }
  record.queues.delete(key);
  record.orphans.delete(key);
}

export function grant(step: Step, entry: Entry, owner: Row): void {
  hold(step, entry);
  const { key, seq, fence } = entry;
  if (entry === step.fresh) return;
  if (owner === step.me) step.grants.push({ key, seq, fence });
  else push(step, owner, { kind: 'grant', epoch: owner.epoch, era: entry.era, key, seq, fence });
}

export function hold(step: Step, entry: Entry): void {
  entry.fence = stamp(step);
  entry.era = step.record.era;
}

/** Gives a message whose owner is gone to a live replica, or parks it. False when nobody can take it now. */
export function passOn(step: Step, entry: Entry, message: Message): boolean {
  const { record } = step;
  if (entry.fence !== 0) countAttempt(entry, message, entry.owner !== 0);
  record.live.get(entry.owner)?.tickets.delete(entry.seq);
  entry.owner = 0;
  if (message.attempt > message.maxAttempts) {
    park(step, entry, message);
    return true;
  }
  if (record.quarantineMs !== 0) return false;
  const adopter = chooseAdopter(step, entry);
  if (adopter === undefined) return false;
  record.orphans.delete(entry.key);
  if (message.suspect) {
    record.suspects.delete(entry.key);
    adopter.trial = entry.key;
  }
  entry.owner = adopter.epoch;
  entry.batch = adopter === step.me ? step.batch : 0;
  entry.offered = true;
  adopter.tickets.set(entry.seq, entry);
  hold(step, entry);
  if (adopter === step.me) offer(step, entry, message);
  else push(step, adopter, { kind: 'look', epoch: adopter.epoch });
  return true;
}

/**
 * It was granted and did not end. `isDeath`: neither did its replica; which of the messages in its hand did that, nobody
 * knows. So from its third attempt on a message is tried apart from all others of that kind, and the next death is its own.
 */
export function countAttempt(entry: Entry, message: Message, isDeath: boolean): void {
  entry.fence = 0;
  message.attempt += 1;
  if (isDeath && message.attempt >= Math.min(SUSPECT_FROM, message.maxAttempts)) message.suspect = true;
}

/** Whether a replica has a suspect message in its hand. */
function isOnTrial(step: Step, row: Row): boolean {
  const head = row.trial === null ? undefined : headOf(step, row.trial);
  if (head === undefined || head.owner !== row.epoch || head.message?.suspect !== true) return false;
  return step.wallMs - head.fence / 1000 < TRIAL_LEASES * configOf(step).leaseMs;
}

/** Hands out the suspect message that has waited longest, if any replica may have one. */
export function tryNextSuspect(step: Step): void {
  for (const key of step.record.suspects) {
    settle(step, key);
    return;
  }
}

export function offer(step: Step, entry: Entry, message: Message): void {
  const { key, seq, fence } = entry;
  step.adopted.push({ key, seq, fence, id: message.id, body: message.body, attempt: message.attempt });
}

/** The caller if it can and does not pass the entry on just now, else the live replica with the fewest tickets. */
export function chooseAdopter(step: Step, entry: Entry): Row | undefined {
  const { me, record } = step;
  const isSuspect = entry.message?.suspect === true;
  const isFree = (row: Row): boolean => !isSuspect || !isOnTrial(step, row);
  if (me?.adopts && step.passing !== entry && step.adopted.length < ADOPT_SHARE && isFree(me)) return me;
  let best: Row | undefined;
  for (const row of record.live.values()) {
    if (!row.adopts || !row.isProven || row.replaced || row === me || !isFree(row)) continue;
    if (best === undefined || row.tickets.size < best.tickets.size) best = row;
  }
  return best;
}

export function park(step: Step, entry: Entry, message: Message): void {
  const { key, seq } = entry;
  const { id, body, error } = message;
  const attempts = message.attempt - 1;
  step.record.parked.set(seq, { key, seq, id, body, attempts, error });
  step.parked.push({ key, id, attempts, error });
  takeOut(step, entry);
}

/** Removes an entry from its queue, wherever it stands. Does not settle. */
export function takeOut(step: Step, entry: Entry): void {
  const queue = step.record.queues.get(entry.key);
  if (queue === undefined) return;
  if (queue.at(0) === entry) queue.shift();
  else {
    const at = queue.indexOf(entry);
    if (at !== -1) queue.splice(at, 1);
  }
}

/** R1: removing the row is the death. All its tickets count no more from here on. */
export function bury(step: Step, row: Row): void {
  const { record } = step;
  record.live.delete(row.epoch);
  for (const entry of inPlaces(row)) {
    // Those further back are skipped when they come to the head.
    if (headOf(step, entry.key) === entry) settle(step, entry.key);
  }
}

/** The tickets of a row in the order of their places, so that every store hands the same message to the same replica. */
export function inPlaces(row: Row): Entry[] {
  return [...row.tickets.values()].sort((a, b) => a.seq - b.seq);
}

export function push(step: Step, to: Row, what: Push): void {
  step.pushes.push({ instance: to.instance, push: what });
}

export function remove(step: Step, owner: Row, entry: Entry): void {
  owner.tickets.delete(entry.seq);
  const wasHead = headOf(step, entry.key) === entry;
  takeOut(step, entry);
  if (wasHead) settle(step, entry.key);
}

/** Leaves a message in its place without an owner. At the head somebody is found at once. */
export function detach(step: Step, owner: Row, entry: Entry): void {
  owner.tickets.delete(entry.seq);
  entry.owner = 0;
  if (headOf(step, entry.key) === entry) settle(step, entry.key);
}
