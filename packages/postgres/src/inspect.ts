/** A look at the record of one shard. */
import type { ParkedView, QueueView, StoreView } from '@botmesh/core/spi';
import { fromWire, fromWireOrNull } from './text.js';

type RawQueue = [key: string, seq: number, epoch: number, fence: number, waiting: number];
type RawParked = [key: string, seq: number, id: string | null, body: string, attempts: number, error: string | null];

interface RawView extends Omit<StoreView, 'queues' | 'parked'> {
  readonly queues: readonly RawQueue[];
  readonly parked: readonly RawParked[];
}

const EMPTY: RawView = {
  config: null,
  era: 0,
  quarantined: false,
  replicas: [],
  queues: [],
  parked: [],
  remembered: 0,
  paces: 0,
};

export function readView(text: string | null): RawView {
  return text === null ? EMPTY : (JSON.parse(text) as RawView);
}

export function keysOfView({ parked, queues }: RawView): string[] {
  return [...queues, ...parked].map(([key]) => key);
}

export function viewOf(raw: RawView, keyOf: (short: string) => string): StoreView {
  return {
    ...raw,
    replicas: raw.replicas.map((replica) => ({ ...replica, replicaId: fromWire(replica.replicaId) })),
    queues: raw.queues.map(
      ([key, seq, epoch, fence, waiting]): QueueView => ({ key: keyOf(key), head: { seq, epoch, fence }, waiting }),
    ),
    parked: raw.parked.map(
      ([key, seq, id, body, attempts, error]): ParkedView => ({
        key: keyOf(key),
        seq,
        id: fromWireOrNull(id),
        body: fromWire(body),
        attempts,
        error: fromWireOrNull(error),
      }),
    ),
  };
}
