/** One message of the log: who says it, what its sender knows, and a step of the protocol, or a part of one. */

/** What the log's messages look like, and what the steps in it do. Raised whenever any of it changes. */
export const LOG_VERSION = 1;

export type StepKind = 'join' | 'apply' | 'beat' | 'leave' | 'pace';

/** What the sender had last read of the log: where, when that was written, and in which era of the record. */
export interface Claim {
  readonly era: number;
  readonly seq: number;
  readonly at: number;
}

export interface Entry {
  readonly version: number;
  /** `note`: no step, only what its head says. */
  readonly kind: StepKind | 'note';
  /** Of this attempt to make the step: random, and another one each time. */
  readonly id: string;
  /** The server process it was sent to; null where the sender cannot tell. */
  readonly server: string | null;
  readonly claim: Claim | null;
  /** For tests: the time to take in place of the server's. */
  readonly toldMs: number | null;
  readonly part: number;
  readonly parts: number;
  /** JSON of the request, or a part of it. */
  readonly body: Uint8Array;
}

const LINE_END = 10;
const encoder = new TextEncoder();
const decoder = new TextDecoder();

/** The messages of one step: more than one when it is larger than `most` bytes. */
export function encode(
  entry: Omit<Entry, 'part' | 'parts' | 'body' | 'version'>,
  request: unknown,
  most: number,
): Uint8Array[] {
  const body = encoder.encode(JSON.stringify(request));
  const parts = Math.max(1, Math.ceil(body.length / most));
  return Array.from({ length: parts }, (_, part) => {
    const { claim, id, kind, server, toldMs } = entry;
    const known = claim === null ? null : [claim.era, claim.seq, claim.at];
    const head = encoder.encode(`${JSON.stringify([LOG_VERSION, kind, id, server, known, toldMs, part, parts])}\n`);
    const piece = body.subarray(part * most, (part + 1) * most);
    const message = new Uint8Array(head.length + piece.length);
    message.set(head);
    message.set(piece, head.length);
    return message;
  });
}

type Head = [
  number,
  Entry['kind'],
  string,
  string | null,
  [number, number, number] | null,
  number | null,
  number,
  number,
];

/** Undefined for what is no message of the log. */
export function decode(data: Uint8Array): Entry | undefined {
  const end = data.indexOf(LINE_END);
  try {
    const head = JSON.parse(decoder.decode(data.subarray(0, end))) as Head;
    const [version, kind, id, server, known, toldMs, part, parts] = head;
    if (typeof version !== 'number' || typeof id !== 'string') return undefined;
    const claim = known === null ? null : { era: known[0], seq: known[1], at: known[2] };
    return { version, kind, id, server, claim, toldMs, part, parts, body: data.subarray(end + 1) };
  } catch {
    return undefined;
  }
}

export function parse(body: Uint8Array): unknown {
  return JSON.parse(decoder.decode(body));
}

/** What the first message of a log says: whatever came before it counts no more. */
export interface Birth {
  readonly version: number;
  readonly id: string;
  /** Whoever made it knows that nothing was ever granted here: nothing has to be waited out. For tests. */
  readonly isFresh?: boolean;
  readonly server: string | null;
  readonly toldMs: number | null;
}

/** What tells that a snapshot is whole. */
export interface Mark {
  readonly version: number;
  /** The record as it was after this message. */
  readonly seq: number;
  /** The messages that have it, in order. */
  readonly chunks: readonly number[];
  readonly bytes: number;
  /** How many bytes of log had been read by then. */
  readonly read: number;
  readonly sha256: string;
}
