import type { Ticket } from '../../coordination/types.js';
import type { TestReplica } from '../conformance.js';
import type { Lab } from './Lab.js';

export interface Granted {
  readonly seq: number;
  readonly fence: number;
}

/** Acquires every ticket at once, holds each turn for a moment, and tells in which order they were granted. */
export async function runAll(
  lab: Lab,
  tickets: readonly (readonly [TestReplica, Ticket])[],
  holdMs = 1,
): Promise<Granted[]> {
  const granted: Granted[] = [];
  await Promise.all(
    tickets.map(async ([replica, ticket]) => {
      const turn = await lab.acquire(replica, ticket);
      granted.push({ seq: ticket.seq, fence: turn.fence });
      await lab.sleep(holdMs);
      await turn.release();
    }),
  );
  return granted;
}

/** Reserves `count` places with `replicas` in turn, each when the one before was taken. */
export async function reserveInTurn(replicas: readonly TestReplica[], key: string, count: number) {
  const tickets: [TestReplica, Ticket][] = [];
  for (let n = 0; n < count; n++) {
    const replica = replicas[n % replicas.length]!;
    tickets.push([replica, await replica.coordinator.reserve(key)]);
  }
  return tickets;
}

export const seqs = (tickets: readonly (readonly [TestReplica, Ticket])[]): number[] =>
  tickets.map(([, { seq }]) => seq);

export const seqsOf = (granted: readonly Granted[]): number[] => granted.map(({ seq }) => seq);
