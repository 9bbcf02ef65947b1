import { describe, expect, test } from 'vitest';
import { demandSameAnswers } from '../../testing/differential.js';
import { memoryStoreLab, type StoreLab } from '../../testing/store-lab.js';
import { VirtualClock } from '../../testing/VirtualClock.js';
import type { Push, Store } from '../store.js';
import {
  apply,
  beat,
  emptyRecord,
  inspect,
  join,
  leave,
  type MeshRecord,
  type Moment,
  type Outgoing,
  pace,
  waiting,
} from '../transitions.js';
import { recordFromJson, recordToJson } from './record-json.js';

const LEASE_MS = 12_000;
const config = { format: 1, leaseMs: LEASE_MS, shards: 1 };

function joinTo(record: MeshRecord, name: string): number {
  const request = { replicaId: name, instance: `${name}-1`, firstEpoch: 0, config, adopts: true, seen: 0 };
  const answer = join(record, request, { nowMs: 1000, run: 'r' }, []);
  if (answer.kind !== 'joined') throw new Error(answer.kind);
  return answer.epoch;
}

describe('a record as JSON', () => {
  test('a fresh record comes back as it was, with its quarantine not yet measured', () => {
    const record = emptyRecord();
    record.quarantineMs = Number.POSITIVE_INFINITY;

    expect(recordFromJson(recordToJson(record))).toEqual(record);
  });

  test('an entry is one object in its queue and in its owner’s tickets', () => {
    const record = emptyRecord();
    const epoch = joinTo(record, 'a');
    const message = { op: 'accept', key: 'k', id: '1', body: '\ud800 "\n', maxAttempts: 5, dedupeMs: 1 } as const;
    apply(record, { epoch, instance: 'a-1', batch: 1, ops: [message] }, { nowMs: 1000, run: 'r' }, []);

    const copy = recordFromJson(recordToJson(record));

    expect(copy).toEqual(record);
    const entry = copy.queues.get('k')?.[0];
    expect(entry).toBeDefined();
    expect(copy.live.get(epoch)?.tickets.get(entry?.seq ?? 0)).toBe(entry);
  });

  test('a record of another format is refused by name', () => {
    const text = recordToJson(emptyRecord()).replace('"format":1', '"format":2');

    expect(() => recordFromJson(text)).toThrow('format 2, this replica knows 1');
    expect(() => recordFromJson('{}')).toThrow('format none');
    expect(() => recordFromJson('null')).toThrow('format none');
  });

  test('a ticket without its place in a queue is told, not passed on', () => {
    const record = emptyRecord();
    const epoch = joinTo(record, 'a');
    const ops = [{ op: 'reserve', key: 'k' }] as const;
    apply(record, { epoch, instance: 'a-1', batch: 1, ops }, { nowMs: 1000, run: 'r' }, []);
    record.queues.clear();

    expect(() => recordFromJson(recordToJson(record))).toThrow('is broken');
  });

  test('a store that keeps only the text answers every step as one that keeps the record', async () => {
    for (let seed = 1; seed <= 30; seed++) {
      await demandSameAnswers({ reference: memoryStoreLab, subject: textStoreLab, seed, steps: 120 });
    }
  });
});

/** A store that reads its record from text before every step, and writes it back after. */
async function textStoreLab(): Promise<StoreLab> {
  const listeners = new Map<string, (push: Push) => void>();
  const clock = new VirtualClock();
  let offsetMs = 0;
  let run = 'first';
  let text = recordToJson({ ...emptyRecord(), run });

  async function step<Answer>(
    make: (record: MeshRecord, moment: Moment, pushes: Outgoing[]) => Answer,
  ): Promise<Answer> {
    const record = recordFromJson(text);
    const pushes: Outgoing[] = [];
    const answer = make(record, { nowMs: clock.wallMs() + offsetMs, run }, pushes);
    text = recordToJson(record);
    for (const { instance, push } of pushes) listeners.get(instance)?.(push);
    return answer;
  }

  const store: Store = {
    join: (request) => step((...by) => join(by[0], request, by[1], by[2])),
    apply: (request) => step((...by) => apply(by[0], request, by[1], by[2])),
    beat: (request) => step((...by) => beat(by[0], request, by[1], by[2])),
    leave: (request) => step((...by) => leave(by[0], request, by[1], by[2])),
    waiting: async (request) => waiting(recordFromJson(text), request),
    pace: (request) => step((...by) => pace(by[0], request, by[1])),
    subscribe: async (instance, listener) => {
      listeners.set(instance, listener);
      return async () => void listeners.delete(instance);
    },
    inspect: async () => inspect(recordFromJson(text), clock.wallMs() + offsetMs),
    close: async () => {},
  };
  const restart = (): void => {
    run += '+';
  };
  return {
    store,
    restart,
    moveClock: (byMs) => {
      offsetMs += byMs;
    },
    wipe: () => {
      text = recordToJson(emptyRecord());
      restart();
    },
    snapshot: async () => {
      const copy = text;
      return () => {
        text = copy;
        restart();
      };
    },
    close: () => store.close(),
  };
}
