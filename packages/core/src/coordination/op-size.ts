import type { Op } from './store.js';

/** Of all its texts, in UTF-16 units. */
export function textOf(op: Op): number {
  const { key } = op;
  if (op.op === 'accept') return key.length + (op.id?.length ?? 0) + op.body.length;
  if (op.op === 'tell') return key.length + op.note.length;
  if (op.op === 'release') return key.length + (op.error?.length ?? 0);
  return key.length;
}

/** From this length on, in UTF-16 units, its length may be why an operation does not get through. */
const LONG = 64 * 1024;

export function isLong(op: Op): boolean {
  return textOf(op) > LONG;
}

/** No unit needs more bytes than this. */
const MOST_BYTES = 3;

/** The bytes of UTF-8 of all its texts, if they are more than `limit`; else undefined, without counting where that is sure. */
export function bytesAbove(op: Op, limit: number): number | undefined {
  if (textOf(op) * MOST_BYTES <= limit) return undefined;
  const encoder = new TextEncoder();
  let bytes = 0;
  for (const value of Object.values(op)) if (typeof value === 'string') bytes += encoder.encode(value).length;
  // Its name is no text of it, nor is what tells the kind of a key.
  bytes -= op.op.length + 2;
  return bytes > limit ? bytes : undefined;
}
