/** A look at the record, page by page: what changes meanwhile may be seen twice or not at all. */
import type { ParkedView, QueueView, StoreView } from '@botmesh/core/spi';
import { Reader } from './answers.js';

type Ask = (part: string, cursor: string) => Promise<unknown>;
type Replica = StoreView['replicas'][number];

export async function view(ask: Ask): Promise<StoreView> {
  const reader = new Reader(await ask('mesh', '0'));
  const [format = 0, leaseMs = 0, shards = 0, era = 0, quarantined, remembered = 0, paces = 0] = reader.numbers();
  const replicas: Replica[] = [];
  while (!reader.isAtEnd) replicas.push(readReplica(reader));
  return {
    config: leaseMs === 0 ? null : { format, leaseMs, shards },
    era,
    quarantined: quarantined === 1,
    replicas,
    queues: await pages(ask, 'queues', readQueue),
    parked: (await pages(ask, 'parked', readParked)).sort((a, b) => a.seq - b.seq),
    remembered,
    paces,
  };
}

async function pages<T>(ask: Ask, part: string, read: (reader: Reader) => T): Promise<T[]> {
  const found: T[] = [];
  let cursor = '0';
  do {
    const reader = new Reader(await ask(part, cursor));
    cursor = reader.line();
    while (!reader.isAtEnd) found.push(read(reader));
  } while (cursor !== '0');
  return found;
}

function readReplica(reader: Reader): Replica {
  const [epoch = 0, beatAgeMs = 0, replaced, tickets = 0] = reader.numbers();
  return { replicaId: reader.text(), epoch, beatAgeMs, replaced: replaced === 1, tickets };
}

function readQueue(reader: Reader): QueueView {
  const [seq = 0, epoch = 0, fence = 0, waiting = 0] = reader.numbers();
  return { key: reader.text(), head: { seq, epoch, fence }, waiting };
}

function readParked(reader: Reader): ParkedView {
  const [seq = 0, attempts = 0, hasId, hasError] = reader.numbers();
  const key = reader.text();
  const id = reader.text();
  const body = reader.text();
  const error = reader.text();
  return { key, seq, id: hasId === 1 ? id : null, body, attempts, error: hasError === 1 ? error : null };
}
