/** The whole shared record of one shard, as plain data. */
import type { ApplyAnswer, Grant, MeshConfig, Note, ParkedView, Push, StoreView } from '../store.js';

/** A place in a queue. The head of a queue holds its key iff `fence` is not 0 and `era` is the record's. */
export interface Entry {
  readonly key: string;
  readonly seq: number;
  /** The epoch it belongs to; 0 for a message that nobody owns. */
  owner: number;
  fence: number;
  /** The era in which the fence was given or confirmed. */
  era: number;
  /** The owner's batch that brought it; 0 when it came by a heartbeat. */
  batch: number;
  /** Handed to its owner unasked; cleared when the owner first lists it. */
  offered: boolean;
  readonly message: Message | null;
}

export interface Message {
  readonly id: string | null;
  readonly body: string;
  readonly maxAttempts: number;
  readonly dedupeMs: number;
  attempt: number;
  /** The last reason that was given for returning it. */
  error: string | null;
  /** It was in the hand of replicas that ended too often: from now on no replica has it together with another such one. */
  suspect: boolean;
}

/** A live epoch. */
export interface Row {
  readonly epoch: number;
  readonly replicaId: string;
  readonly instance: string;
  readonly firstEpoch: number;
  /** Whether it was heard of since it joined. A join alone may be late or doubled, of a start that is long over. */
  isProven: boolean;
  /** When its last heartbeat came. */
  beat: number;
  /** That heartbeat's number. */
  beatNumber: number;
  /** Start of its unbroken row of heartbeats. */
  since: number;
  /** A newer start has its replicaId: refused in everything, kept until it has surely ended. */
  replaced: boolean;
  adopts: boolean;
  batch: number;
  reply: ApplyAnswer | null;
  /** What was told to its turns and it has not heard, oldest first. */
  notes: readonly Note[];
  /** The key of the suspect message that it was handed last; null for none. It may be over. */
  trial: string | null;
  /** Its entries by seq. */
  readonly tickets: Table<number, Entry> & { readonly size: number };
}

/** What the steps need of a queue: an array of entries is one. */
export type Queue = Pick<Entry[], 'at' | 'push' | 'shift' | 'indexOf' | 'splice'> & Iterable<Entry>;

/** What the steps need of a map: a Map is one. */
export interface Table<K, V> {
  get(key: K): V | undefined;
  set(key: K, value: V): unknown;
  delete(key: K): unknown;
  values(): Iterable<V>;
}

/** What the steps need of a set of names: a Set is one. */
export interface Names {
  has(name: string): boolean;
  add(name: string): unknown;
  delete(name: string): unknown;
}

/**
 * What the steps need of a record. A MeshRecord is one; a backend whose steps run in this process may keep the parts
 * elsewhere (rows of a table) and read only what a step touches.
 */
export interface Ledger extends Pick<MeshRecord, 'config' | 'run' | 'era' | 'quarantineMs' | 'last'> {
  readonly live: Table<number, Row>;
  readonly queues: Omit<Table<string, Queue>, 'values'> & { has(key: string): boolean };
  readonly orphans: Omit<Names, 'has'> & Iterable<string> & { readonly size: number };
  readonly suspects: Omit<Names, 'has'> & Iterable<string>;
  readonly taken: Names;
  readonly done: Omit<Table<string, number>, 'values'> & Iterable<[string, number]>;
  readonly parked: Omit<Table<number, ParkedView>, 'values'>;
  readonly paces: Omit<Table<string, number>, 'values'> & Iterable<[string, number]>;
  /**
   * Whether the record has just what a heartbeat lists: the same tickets of this epoch, held in this era under the same
   * fences or waiting behind others, none offered. For a ledger that can tell without reading each; without it, or when it
   * says no, each is read.
   */
  isAsListed?(epoch: number, view: readonly Grant[]): boolean;
}

/** The whole shared record of one shard. */
export interface MeshRecord {
  config: MeshConfig | null;
  /** The server's identity when the record was last touched. */
  run: string | null;
  era: number;
  /** How long a replica must have watched this era before anything is granted; 0 when there is no quarantine. */
  quarantineMs: number;
  /** The last stamp given. */
  last: number;
  readonly live: Map<number, Row>;
  /** Non-empty queues only; the first entry is the head. */
  readonly queues: Map<string, Entry[]>;
  /** Keys whose head is a message that nobody could take over yet. */
  readonly orphans: Set<string>;
  /** Keys whose head is a suspect message that waits for a replica which has none, longest first. */
  readonly suspects: Set<string>;
  /** Ids of messages that wait, run or are parked. */
  readonly taken: Set<string>;
  /** Ids of finished messages, and until when they are remembered. In order of finishing. */
  readonly done: Map<string, number>;
  /** Messages that failed too often, by the seq they had. */
  readonly parked: Map<number, ParkedView>;
  /** Shared paces by name: the time up to which slots are taken. One that is over means nothing. */
  readonly paces: Map<string, number>;
}

export function emptyRecord(): MeshRecord {
  return {
    config: null,
    run: null,
    era: 0,
    quarantineMs: 0,
    last: 0,
    live: new Map(),
    queues: new Map(),
    orphans: new Set(),
    suspects: new Set(),
    taken: new Set(),
    done: new Map(),
    parked: new Map(),
    paces: new Map(),
  };
}

/** What the server knows when a step runs. */
export interface Moment {
  /** Judges leases. */
  readonly nowMs: number;
  /** Gives stamps and the time for which ids are remembered, where another clock than that of the leases does: it must go on rising across restarts of the host. */
  readonly wallMs?: number;
  /** Changes whenever the server may have lost writes. */
  readonly run: string;
}

export interface Outgoing {
  readonly instance: string;
  readonly push: Push;
}

export function inspect(record: MeshRecord, nowMs: number): StoreView {
  return {
    config: record.config,
    era: record.era,
    quarantined: record.quarantineMs !== 0,
    replicas: [...record.live.values()].map((row) => ({
      replicaId: row.replicaId,
      epoch: row.epoch,
      beatAgeMs: nowMs - row.beat,
      replaced: row.replaced,
      tickets: row.tickets.size,
    })),
    queues: [...record.queues].map(([key, queue]) => ({
      key,
      head: { seq: queue[0]?.seq ?? 0, epoch: queue[0]?.owner ?? 0, fence: queue[0]?.fence ?? 0 },
      waiting: queue.length - 1,
    })),
    parked: [...record.parked.values()],
    remembered: record.done.size,
    paces: record.paces.size,
  };
}
