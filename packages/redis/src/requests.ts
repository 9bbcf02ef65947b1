/** What is asked of the script, as flat arguments. */
import type { ApplyRequest, BeatRequest, JoinRequest, LeaveRequest, Op } from '@botmesh/core/spi';
import { toWire } from './text.js';

export type Args = (string | number)[];

const RELEASES = { done: 'd', return: 'b', lost: 'l', pass: 'p', withdraw: 'w' } as const;

export function joinArgs(request: JoinRequest): Args {
  const { adopts, config, firstEpoch, instance, replicaId, seen } = request;
  const { format, leaseMs, shards } = config;
  return [toWire(instance), toWire(replicaId), firstEpoch, adopts ? 1 : 0, seen, format, leaseMs, shards];
}

export function applyArgs({ batch, epoch, instance, ops }: ApplyRequest): Args {
  let letters = '';
  const keys: Args = [];
  const more: Args = [];
  for (const op of ops) {
    letters += letterOf(op);
    keys.push(toWire(op.key));
    addMore(op, more);
  }
  return [epoch, toWire(instance), batch, letters, ...keys, ...more];
}

function letterOf(op: Op): string {
  switch (op.op) {
    case 'reserve':
      return 'r';
    case 'try':
      return 't';
    case 'accept':
      return op.id === null ? 'm' : 'a';
    case 'release':
      return hasMore(op) ? RELEASES[op.how].toUpperCase() : RELEASES[op.how];
    case 'tell':
      return 'n';
    case 'replay':
      return 'y';
    case 'drop':
      return 'x';
  }
}

function hasMore({ also, error }: Op & { op: 'release' }): boolean {
  return (also !== undefined && also.length > 0) || (error !== undefined && error !== null);
}

function addMore(op: Op, more: Args): void {
  switch (op.op) {
    case 'accept':
      if (op.id !== null) more.push(toWire(op.id));
      more.push(toWire(op.body), op.maxAttempts, op.dedupeMs);
      return;
    case 'release':
      more.push(op.seq);
      if (hasMore(op)) addReasonAndAlso(op, more);
      return;
    case 'tell':
      more.push(toWire(op.note));
      return;
    case 'replay':
      more.push(op.seq, op.maxAttempts, op.dedupeMs);
      return;
    case 'drop':
      more.push(op.seq);
      return;
    default:
  }
}

function addReasonAndAlso({ also = [], error = null }: Op & { op: 'release' }, more: Args): void {
  more.push(error === null ? '' : `=${toWire(error)}`, also.length, ...also);
}

export function beatArgs(request: BeatRequest): Args {
  const { adopts, answered, beat, epoch, era, heard, instance, seen, view, watchedMs } = request;
  const args: Args = [
    epoch,
    toWire(instance),
    beat,
    era,
    watchedMs,
    seen,
    adopts ? 1 : 0,
    answered,
    heard,
    view.length,
  ];
  for (const { key } of view) args.push(toWire(key));
  for (const { seq, fence } of view) args.push(seq, fence);
  return args;
}

export function leaveArgs({ epoch, instance }: LeaveRequest): Args {
  return [epoch, toWire(instance)];
}
