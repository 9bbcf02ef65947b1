import { hostname } from 'node:os';
import type { Clock } from '../time/clock.js';

/** Host, pid and a random part: says where the replica runs, and is never given twice. */
export function makeReplicaId(clock: Clock): string {
  return `${hostname()}-${process.pid}-${clock.uniqueId().slice(-8)}`;
}
