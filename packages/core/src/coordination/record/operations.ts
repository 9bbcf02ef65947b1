/** The operations of a batch. */
import type { Op, Taken } from '../store.js';
import {
  bury,
  countAttempt,
  detach,
  headOf,
  hold,
  isGranted,
  push,
  remove,
  settle,
  takeOut,
  tryNextSuspect,
} from './queues.js';
import type { Entry, Message, Queue, Row } from './record.js';
import { isOver, type Step, stamp } from './step.js';

/** No replica has more notes waiting than this. */
const MOST_NOTES = 256;

export function run(step: Step, me: Row, op: Op): Taken | null {
  switch (op.op) {
    case 'reserve':
      return enqueue(step, me, op.key, null);
    case 'try':
      return tryTake(step, me, op.key);
    case 'accept':
      return accept(step, me, op);
    case 'release':
      return release(step, me, op);
    case 'tell':
      return tell(step, op);
    case 'replay':
      return replay(step, op);
    case 'drop':
      return drop(step, op);
  }
}

export function enqueue(step: Step, me: Row, key: string, message: Message | null): Taken {
  const { record } = step;
  const entry: Entry = {
    key,
    seq: stamp(step),
    owner: me.epoch,
    fence: 0,
    era: 0,
    batch: step.batch,
    offered: false,
    message,
  };
  me.tickets.set(entry.seq, entry);
  const queue = record.queues.get(key);
  if (queue === undefined) {
    record.queues.set(key, [entry]);
    if (record.quarantineMs === 0) hold(step, entry);
    return { seq: entry.seq, fence: entry.fence };
  }
  queue.push(entry);
  step.fresh = entry;
  clearWay(step, me, queue);
  step.fresh = null;
  return { seq: entry.seq, fence: entry.fence };
}

/** Buries the owner of the head if its lease is over, so that nobody queues behind the dead. */
export function clearWay(step: Step, me: Row, queue: Queue): void {
  const head = queue.at(0);
  if (head === undefined) return;
  const owner = step.record.live.get(head.owner);
  if (owner === undefined) settle(step, head.key);
  else if (owner !== me && isOver(step, owner)) bury(step, owner);
}

export function tryTake(step: Step, me: Row, key: string): Taken | null {
  const { record } = step;
  if (record.quarantineMs !== 0) return null;
  const queue = record.queues.get(key);
  if (queue !== undefined) clearWay(step, me, queue);
  if (record.queues.has(key)) return null;
  return enqueue(step, me, key, null);
}

export function accept(step: Step, me: Row, op: Op & { op: 'accept' }): Taken | null {
  const { record } = step;
  const { id, body, maxAttempts, dedupeMs } = op;
  if (id !== null) {
    const name = idName(op.key, id);
    if (record.taken.has(name) || (record.done.get(name) ?? 0) > step.wallMs) return null;
    record.done.delete(name);
    record.taken.add(name);
  }
  return enqueue(step, me, op.key, { id, body, maxAttempts, dedupeMs, attempt: 1, error: null, suspect: false });
}

/** R12 and releases by anyone but the owner: an entry the caller does not own is left alone. */
export function release(step: Step, me: Row, op: Op & { op: 'release' }): Taken | null {
  const entry = me.tickets.get(op.seq);
  if (entry === undefined || entry.key !== op.key) return null;
  const { also = [], how } = op;
  const { fence, message, seq } = entry;
  const isHeld = headOf(step, entry.key) === entry && isGranted(step, entry);
  if (isHeld && also.length > 0) finishBehind(step, me, entry, also);
  if (message === null) remove(step, me, entry);
  else if (how === 'pass') pass(step, me, entry);
  else {
    if (how === 'return' || how === 'lost') giveBack(step, me, entry, message, op);
    else {
      forget(step, entry.key, message, how === 'done');
      remove(step, me, entry);
    }
    if (message.suspect) tryNextSuspect(step);
  }
  return { seq, fence: isHeld ? fence : 0 };
}

function giveBack(step: Step, me: Row, entry: Entry, message: Message, { error, how }: Op & { op: 'release' }): void {
  message.error = error ?? message.error;
  if (how === 'lost' && entry.fence !== 0) countAttempt(entry, message, true);
  detach(step, me, entry);
}

/** Ends messages that wait behind the head, whoever owns them: only the holder may, for nobody else runs here now. */
function finishBehind(step: Step, me: Row, head: Entry, also: readonly number[]): void {
  const { key } = head;
  const wanted = new Set(also);
  const found: Entry[] = [];
  for (const entry of step.record.queues.get(key) ?? []) {
    if (wanted.size === 0) break;
    if (wanted.delete(entry.seq) && entry !== head && entry.message !== null) found.push(entry);
  }
  for (const entry of found) {
    const owner = step.record.live.get(entry.owner);
    owner?.tickets.delete(entry.seq);
    takeOut(step, entry);
    if (entry.message !== null) forget(step, key, entry.message, true);
    if (owner !== undefined && owner !== me) push(step, owner, { kind: 'look', epoch: owner.epoch });
  }
}

/** Back to its place as if it had never been granted. Not to who passes it on, unless nobody else comes for it. */
function pass(step: Step, me: Row, entry: Entry): void {
  entry.fence = 0;
  step.passing = entry;
  detach(step, me, entry);
  step.passing = null;
}

export function tell(step: Step, { key, note }: Op & { op: 'tell' }): Taken | null {
  const head = headOf(step, key);
  const owner = step.record.live.get(head?.owner ?? 0);
  if (head === undefined || !isGranted(step, head)) return null;
  if (owner === undefined || owner.replaced || owner.notes.length >= MOST_NOTES) return null;
  const { seq, fence } = head;
  owner.notes = [...owner.notes, { at: stamp(step), key, seq, note }];
  push(step, owner, { kind: 'look', epoch: owner.epoch });
  return { seq, fence };
}

/** Nobody owns it until it is the head. */
export function replay(step: Step, op: Op & { op: 'replay' }): Taken | null {
  const { record } = step;
  const { key, maxAttempts, dedupeMs } = op;
  const parked = record.parked.get(op.seq);
  if (parked === undefined || parked.key !== key) return null;
  record.parked.delete(op.seq);
  const { id, body } = parked;
  const message: Message = { id, body, maxAttempts, dedupeMs, attempt: 1, error: null, suspect: false };
  const seq = stamp(step);
  const entry: Entry = { key, seq, owner: 0, fence: 0, era: 0, batch: 0, offered: false, message };
  const queue = record.queues.get(key);
  if (queue === undefined) record.queues.set(key, [entry]);
  else queue.push(entry);
  if (queue === undefined) settle(step, key);
  return { seq, fence: 0 };
}

export function drop(step: Step, { key, seq }: Op & { op: 'drop' }): Taken | null {
  const parked = step.record.parked.get(seq);
  if (parked === undefined || parked.key !== key) return null;
  step.record.parked.delete(seq);
  if (parked.id !== null) step.record.taken.delete(idName(key, parked.id));
  return { seq, fence: 0 };
}

/** Frees a message's id, or remembers it for its time when the message is done. */
export function forget(step: Step, key: string, message: Message, isDone: boolean): void {
  if (message.id === null) return;
  const name = idName(key, message.id);
  step.record.taken.delete(name);
  if (isDone) step.record.done.set(name, step.wallMs + message.dedupeMs);
}

/** No two pairs of key and id have one name, whatever characters they hold. */
export function idName(key: string, id: string): string {
  return `${key.length}:${key}${id}`;
}
