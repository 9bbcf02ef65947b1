import { BadInputError } from '../errors.js';
import { notPlain } from '../state/plain-data.js';

/**
 * What one replica tells the turn of a chat that another one runs.
 *
 * - `newer`: a message that interrupts waits behind you
 * - `cancel`: end, the message is not wanted any more
 * - `steer`: something for the handler
 */
export type Note =
  | { readonly t: 'newer' }
  | { readonly t: 'cancel'; readonly reason: string }
  | { readonly t: 'steer'; readonly payload: unknown };

const LONGEST_NOTE = 64 * 1024;
const LONGEST_REASON = 500;

export const NEWER = JSON.stringify({ t: 'newer' } satisfies Note);

export function cancelNote(reason: string): string {
  return JSON.stringify({ t: 'cancel', reason: reason.slice(0, LONGEST_REASON) } satisfies Note);
}

/** @throws BadInputError when it is not plain JSON data, or too much of it */
export function steerNote(payload: unknown): string {
  const problem = notPlain(payload, 'payload');
  if (problem !== undefined) throw new BadInputError(`bot.steer(): ${problem}: expected plain JSON data.`);
  const note = JSON.stringify({ t: 'steer', payload } satisfies Note);
  if (note.length <= LONGEST_NOTE) return note;
  throw new BadInputError(`bot.steer(): payload has ${note.length} characters of JSON, more than ${LONGEST_NOTE}.`);
}

/** Undefined for what another version may have written. */
export function readNote(text: string): Note | undefined {
  try {
    const note = JSON.parse(text) as Partial<Note> | null;
    return note?.t === 'newer' || note?.t === 'cancel' || note?.t === 'steer' ? (note as Note) : undefined;
  } catch {
    return undefined;
  }
}
