/** Snapshots of the record, kept in the log's own stream: pieces, and then a mark that tells where they are. */
import { createHash } from 'node:crypto';
import { ApiError, NO_MESSAGE } from '../clients/failures.js';
import type { Link } from '../clients/Link.js';
import { within } from '../clients/within.js';
import type { Place } from '../namespace.js';
import { Copy } from './Copy.js';
import { LOG_VERSION, type Mark, parse } from './entry.js';

/** The pieces are asked for as base64 in JSON, which has to fit into a message as well. */
const MOST_PIECE = 256 * 1024;
/** So many pieces are asked for at once. */
const AT_ONCE = 8;

export interface Stored {
  readonly seq: number;
  readonly atUs: number;
  readonly data: Uint8Array;
}

/** Writes `text`, the copy after the message `seq`, and tells all who read the log. Then what came before is removed. */
export async function writeSnapshot(
  link: Link,
  { prefix, stream }: Place,
  copy: { readonly seq: number; readonly read: number; readonly text: string },
): Promise<void> {
  const bytes = new TextEncoder().encode(copy.text);
  const most = Math.min(MOST_PIECE, Math.floor(link.info.max_payload / 2));
  const chunks: number[] = [];
  for (let from = 0; from < bytes.length; from += most) {
    chunks.push(await link.put(`${prefix}.snap`, bytes.subarray(from, from + most)));
  }
  const sha256 = createHash('sha256').update(bytes).digest('hex');
  const { read, seq } = copy;
  const mark: Mark = { version: LOG_VERSION, seq, chunks, bytes: bytes.length, read, sha256 };
  await link.put(`${prefix}.mark`, new TextEncoder().encode(JSON.stringify(mark)));
  await link.ask(`STREAM.PURGE.${stream}`, { seq: seq + 1 });
}

/** The copy of the newest snapshot that is whole; undefined when there is none, `later` when it is of a later version. */
export async function readSnapshot(link: Link, place: Place): Promise<Copy | 'later' | undefined> {
  const last = await lastOf(link, place, 'mark');
  if (last === undefined) return undefined;
  const mark = parse(last.data) as Mark;
  const pieces: Uint8Array[] = [];
  for (let at = 0; at < mark.chunks.length; at += AT_ONCE) {
    const asked = mark.chunks.slice(at, at + AT_ONCE).map((seq) => messageAt(link, place, seq));
    for (const found of await Promise.all(asked)) if (found !== undefined) pieces.push(found.data);
  }
  const bytes = Buffer.concat(pieces);
  if (createHash('sha256').update(bytes).digest('hex') !== mark.sha256) return undefined;
  const copy = Copy.fromSnapshot(new TextDecoder().decode(bytes));
  if (copy === undefined) return 'later';
  copy.mark = mark;
  return copy;
}

export function messageAt(link: Link, place: Place, seq: number): Promise<Stored | undefined> {
  return stored(link, place, { seq });
}

export function lastOf(link: Link, place: Place, subject: string): Promise<Stored | undefined> {
  return stored(link, place, { last_by_subj: `${place.prefix}.${subject}` });
}

async function stored(link: Link, { stream }: Place, request: Record<string, unknown>): Promise<Stored | undefined> {
  try {
    const asked = link.ask<{ message: { seq: number; time: string; data?: string } }>(
      `STREAM.MSG.GET.${stream}`,
      request,
    );
    const { message } = await within(30_000, 'STREAM.MSG.GET', asked);
    return { seq: message.seq, atUs: microseconds(message.time), data: Buffer.from(message.data ?? '', 'base64') };
  } catch (error) {
    if (error instanceof ApiError && error.reason === NO_MESSAGE) return undefined;
    throw error;
  }
}

/** Of `2026-11-30T20:00:00.123456789Z`: Date knows milliseconds only. */
export function microseconds(time: string): number {
  const [, seconds = '', fraction = ''] = /^(.*?)(?:\.(\d+))?Z$/.exec(time) ?? [];
  return Date.parse(`${seconds}Z`) * 1000 + Number(fraction.padEnd(6, '0').slice(0, 6));
}
