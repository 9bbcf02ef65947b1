/** The record as text, for backends that keep it in one document. Reading what was written gives the same record. */
import { ConfigError } from '../../errors.js';
import { FORMAT, type ParkedView } from '../store.js';
import type { Entry, MeshRecord, Row } from './record.js';

type RowJson = Omit<Row, 'tickets'> & { readonly tickets: readonly number[] };

/** Each Map as pairs, each Set as a list; no quarantine yet measured (infinity) as null; tickets as seqs of queued entries. */
type RecordJson = Pick<MeshRecord, 'config' | 'run' | 'era' | 'last'> & {
  readonly format: number;
  readonly quarantineMs: number | null;
  readonly live: readonly RowJson[];
  readonly queues: readonly (readonly [string, Entry[]])[];
  readonly orphans: readonly string[];
  readonly suspects: readonly string[];
  readonly taken: readonly string[];
  readonly done: readonly (readonly [string, number])[];
  readonly parked: readonly ParkedView[];
  readonly paces: readonly (readonly [string, number])[];
};

/** `record` as JSON text, its format number first. Texts of messages are in it: guard it as you guard them. */
export function recordToJson(record: MeshRecord): string {
  const { quarantineMs, live, queues, orphans, suspects, taken, done, parked, paces, ...rest } = record;
  const json: RecordJson = {
    format: FORMAT,
    ...rest,
    quarantineMs: quarantineMs === Number.POSITIVE_INFINITY ? null : quarantineMs,
    live: [...live.values()].map((row) => ({ ...row, tickets: [...row.tickets.values()].map(({ seq }) => seq) })),
    queues: [...queues],
    orphans: [...orphans],
    suspects: [...suspects],
    taken: [...taken],
    done: [...done],
    parked: [...parked.values()],
    paces: [...paces],
  };
  return JSON.stringify(json);
}

/**
 * The record that `recordToJson` made `text` of. Does not check more than the format number.
 *
 * @throws ConfigError (`config-mismatch`) when the text is of another format
 * @throws SyntaxError when it is no JSON
 */
export function recordFromJson(text: string): MeshRecord {
  const json = JSON.parse(text) as RecordJson;
  if (json?.format !== FORMAT) {
    const found = JSON.stringify(json?.format) ?? 'none';
    throw new ConfigError(`The stored record has format ${found}, this replica knows ${FORMAT}.`, 'config-mismatch');
  }
  const { format: _, quarantineMs, live, queues, orphans, suspects, taken, done, parked, paces, ...rest } = json;
  const entries = new Map<number, Entry>();
  for (const [, queue] of queues) for (const entry of queue) entries.set(entry.seq, entry);
  return {
    ...rest,
    quarantineMs: quarantineMs ?? Number.POSITIVE_INFINITY,
    live: new Map(live.map((row) => [row.epoch, { ...row, tickets: ticketsOf(row, entries) }])),
    queues: new Map(queues),
    orphans: new Set(orphans),
    suspects: new Set(suspects),
    taken: new Set(taken),
    done: new Map(done),
    parked: new Map(parked.map((each) => [each.seq, each])),
    paces: new Map(paces),
  };
}

/** An entry in a queue and in its owner's tickets is one object: what changes it here must change it there. */
function ticketsOf({ epoch, tickets }: RowJson, entries: ReadonlyMap<number, Entry>): Map<number, Entry> {
  return new Map(
    tickets.map((seq) => {
      const entry = entries.get(seq);
      if (entry === undefined) throw new Error(`The stored record is broken: epoch ${epoch} has no ticket ${seq}.`);
      return [seq, entry];
    }),
  );
}
