import { expect, test } from 'vitest';
import { apply, emptyRecord, join, pace } from '../transitions.js';

const MESH = { leaseMs: 6_000, shards: 1, format: 1 };

test.each([Number.NaN, Infinity, -Infinity, 2 ** 1000, -(2 ** 1000), -1, 2 ** 43, 2 ** 53])(
  'a wall clock that shows %d gives rising stamps and holds up nobody',
  (wallMs) => {
    const record = emptyRecord();
    const soundMs = Date.UTC(2026, 10, 30);
    const at = (showsMs: number) => ({ nowMs: 1_000, wallMs: showsMs, run: 'run' });
    const enter = (replicaId: string, showsMs: number) => {
      const who = { replicaId, instance: replicaId, firstEpoch: 0, seen: 0, adopts: false, config: MESH };
      const answer = join(record, who, at(showsMs), []);
      if (answer.kind !== 'joined') throw new Error(answer.kind);
      return answer.epoch;
    };
    const epochs = [enter('a', soundMs), enter('b', wallMs), enter('c', soundMs)];
    const take = (batch: number, showsMs: number) => {
      const caller = { epoch: epochs[1]!, instance: 'b', batch };
      const answer = apply(record, { ...caller, ops: [{ op: 'reserve', key: `k${batch}` }] }, at(showsMs), []);
      if (answer.kind !== 'applied') throw new Error(answer.kind);
      return answer.results[0]!.seq;
    };
    const stamps = [...epochs, take(1, wallMs), take(2, soundMs), take(3, wallMs)];

    expect(stamps).toEqual([...new Set(stamps)].sort((a, b) => a - b));
    expect(stamps.at(-1)).toBeLessThan(2 ** 52);
    const { waitMs } = pace(record, { name: 'p', costMs: 100, burstMs: 0, pauseMs: 0 }, at(wallMs));
    expect(waitMs).toBeLessThan(100);
    expect(record.paces.get('p')).toSatisfy(Number.isFinite);
  },
);
