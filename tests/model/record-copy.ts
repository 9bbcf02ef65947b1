import type { MeshRecord } from '@botmesh/core/spi';

type Row = MeshRecord['live'] extends Map<number, infer R> ? R : never;
type Entry = MeshRecord['queues'] extends Map<string, (infer E)[]> ? E : never;

/** A copy that shares nothing that a step changes. Faster than `structuredClone`, and for records without messages only. */
export function cloneRecord(record: MeshRecord): MeshRecord {
  const copies = new Map<Entry, Entry>();
  const copy = (entry: Entry): Entry => {
    const known = copies.get(entry);
    if (known !== undefined) return known;
    const made = { ...entry };
    copies.set(entry, made);
    return made;
  };
  const queues = new Map<string, Entry[]>();
  for (const [key, queue] of record.queues) queues.set(key, queue.map(copy));
  const live = new Map<number, Row>();
  for (const [epoch, row] of record.live) {
    const tickets = new Map<number, Entry>();
    for (const entry of row.tickets.values()) tickets.set(entry.seq, copy(entry));
    live.set(epoch, { ...row, tickets });
  }
  return {
    ...record,
    live,
    queues,
    orphans: new Set(),
    suspects: new Set(),
    taken: new Set(),
    done: new Map(),
    parked: new Map(),
    paces: new Map(),
  };
}
