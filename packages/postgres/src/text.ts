import { createHash } from 'node:crypto';

/** Marks a text that could not be stored as it is. */
const MARK = '\u0001';
/** Marks what stands for a text that is too long for an index. */
const LONG = '\u0002';
const NUL = '\u0000';
const LONE_SURROGATE = /\p{Surrogate}/u;
/** In bytes of UTF-8. Two of them and some numbers fit into an index's row, which is 2,704 bytes. */
const LONGEST = 1_024;

/** Text for a column. PostgreSQL has neither NUL nor lone surrogates: texts with such, or that begin with a mark, are escaped. */
export function toWire(text: string): string {
  const isOdd = text.startsWith(MARK) || text.startsWith(LONG) || text.includes(NUL) || LONE_SURROGATE.test(text);
  return isOdd ? MARK + JSON.stringify(text) : text;
}

export function fromWire(wire: string): string {
  return wire.startsWith(MARK) ? (JSON.parse(wire.slice(1)) as string) : wire;
}

export function fromWireOrNull(wire: string | null): string | null {
  return wire === null ? null : fromWire(wire);
}

/** What is compared and indexed in place of `text`. */
export function shortOf(text: string): string {
  const wire = toWire(text);
  const isShort = wire.length <= LONGEST / 3 || Buffer.byteLength(wire) <= LONGEST;
  return isShort ? wire : LONG + createHash('sha256').update(wire).digest('hex');
}

/** Whether it stands for another text, which has to be asked for. */
export function isLong(short: string): boolean {
  return short.startsWith(LONG);
}
