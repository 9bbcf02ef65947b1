/** The operations of a batch: reserve, try, accept, release. */
import type { Op, Taken } from '../store.js';
import { bury, detach, hold, remove, settle } from './queues.js';
import type { Entry, Message, Queue, Row } from './record.js';
import { isOver, type Step, stamp } from './step.js';

export function run(step: Step, me: Row, op: Op): Taken | null {
  switch (op.op) {
    case 'reserve':
      return enqueue(step, me, op.key, null);
    case 'try':
      return tryTake(step, me, op.key);
    case 'accept':
      return accept(step, me, op);
    case 'release':
      release(step, me, op);
      return null;
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
  return enqueue(step, me, op.key, { id, body, maxAttempts, dedupeMs, attempt: 1 });
}

/** R12 and releases by anyone but the owner: an entry the caller does not own is left alone. */
export function release(step: Step, me: Row, op: Op & { op: 'release' }): void {
  const entry = me.tickets.get(op.seq);
  if (entry === undefined || entry.key !== op.key) return;
  const { message } = entry;
  if (message !== null && op.how === 'return') {
    detach(step, me, entry);
    return;
  }
  if (message !== null) forget(step, entry.key, message, op.how === 'done');
  remove(step, me, entry);
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
