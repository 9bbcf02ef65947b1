// For the tests of this package: bugs planted into its statements, which the tests have to find.

/** `find` stands exactly once in just one of the statements that a run makes. */
export interface Planted {
  readonly name: string;
  readonly find: string;
  readonly replace: string;
  /** Which tests have to find it: random lists of steps held to the reference, or the suite of state stores. */
  readonly foundBy: 'lists' | 'state';
}

export const PLANTED: readonly Planted[] = [
  {
    name: 'a key is granted out of turn, to the last in line',
    find: 'FROM entry WHERE key = ? ORDER BY seq LIMIT',
    replace: 'FROM entry WHERE key = ? ORDER BY seq DESC LIMIT',
    foundBy: 'lists',
  },
  {
    name: 'a heartbeat does not renew the lease',
    find: 'beat = ?, beat_number = ?',
    replace: 'beat = coalesce(beat, ?), beat_number = ?',
    foundBy: 'lists',
  },
  {
    name: 'a heartbeat that comes late is taken for a new one',
    find: 'beat_number = ?, since',
    replace: 'beat_number = coalesce(beat_number, ?), since',
    foundBy: 'lists',
  },
  {
    name: 'a batch that comes late, or again, is taken for a new one',
    find: 'UPDATE replica SET batch = ?,',
    replace: 'UPDATE replica SET batch = coalesce(batch, ?),',
    foundBy: 'lists',
  },
  {
    name: 'stamps are not counted on',
    find: 'quarantine_ms = ?, last = ?',
    replace: 'quarantine_ms = ?, last = coalesce(last, ?)',
    foundBy: 'lists',
  },
  {
    name: 'a quarantine ends at once',
    find: 'quarantine_ms = ?',
    replace: 'quarantine_ms = 0 * ?',
    foundBy: 'lists',
  },
  {
    name: 'who is buried stays alive',
    find: 'DELETE FROM replica WHERE epoch = ?',
    replace: 'DELETE FROM replica WHERE epoch = ? AND 0',
    foundBy: 'lists',
  },
  {
    name: 'what ended keeps its place',
    find: 'DELETE FROM entry WHERE key = ? AND seq = ?',
    replace: 'DELETE FROM entry WHERE key = ? AND seq = ? AND 0',
    foundBy: 'lists',
  },
  {
    name: 'a message that is handed on keeps its owner',
    find: 'UPDATE entry SET owner = ?,',
    replace: 'UPDATE entry SET owner = coalesce(owner, ?),',
    foundBy: 'lists',
  },
  {
    name: 'an attempt that died is not counted',
    find: 'attempt = ?, error = ?, suspect = ? WHERE',
    replace: 'attempt = coalesce(attempt, ?), error = ?, suspect = ? WHERE',
    foundBy: 'lists',
  },
  {
    name: 'ids of finished messages are not remembered',
    find: 'INSERT OR REPLACE INTO done (name, until) VALUES (?, ?)',
    replace: 'DELETE FROM done WHERE name = ? AND until = ? AND 0',
    foundBy: 'lists',
  },
  {
    name: 'a state is written whatever its fence',
    find: 'WHERE fence <= excluded.fence',
    replace: '',
    foundBy: 'state',
  },
];

/** `text` with the bug in it; undefined where it does not belong. */
export function planted({ find, replace }: Planted, text: string): string | undefined {
  const parts = text.split(find);
  if (parts.length === 1) return undefined;
  if (parts.length > 2) throw new Error(`expected one place, found ${parts.length - 1}: ${find}`);
  return parts.join(replace);
}
