import { emptyRecord, transitions } from '@botmesh/core/spi';
import { type Case, cpuUsOf, type Open } from './plot.js';
import { BEAT_MS, LEASE_MS, type StillMesh, stillMesh } from './still.js';

/** Microseconds of CPU of a heartbeat of a replica that holds the turns of so many chats, the store's part included. */
export function heldCase(line: string, held: number, beats: number): Case {
  return { line, x: held, open: () => openMesh({ replicas: 1, chatOf: (at) => `chat-${at}`, tickets: held, beats }) };
}

/** The same, of one that has so many tickets of one chat: one holds it, the others wait. */
export function waitingCase(line: string, waiting: number, beats: number): Case {
  return { line, x: waiting, open: () => openMesh({ replicas: 1, chatOf: () => 'chat', tickets: waiting, beats }) };
}

/** The same, of each of so many replicas of one mesh, which hold so many turns each. */
export function meshCase(line: string, replicas: number, held: number, beats: number): Case {
  return {
    line,
    x: replicas,
    open: () => openMesh({ replicas, chatOf: (at, replica) => `chat-${replica}-${at}`, tickets: held, beats }),
  };
}

interface MeshLoad {
  readonly replicas: number;
  readonly chatOf: (at: number, replica: number) => string;
  readonly tickets: number;
  /** Of all replicas together, at least; and at least two of each. */
  readonly beats: number;
}

async function openMesh({ replicas: count, chatOf, tickets, beats }: MeshLoad): Promise<Open> {
  const still = await stillMesh(count);
  const { clock, replicas } = still;
  const places = await Promise.all(
    replicas.map((replica, index) =>
      Promise.all(Array.from({ length: tickets }, (_, at) => replica.reserve(chatOf(at, index)))),
    ),
  );
  // Only heads can be acquired now; one more than is held waits behind them where there is but one chat.
  const isOneChat = tickets > 1 && chatOf(0, 0) === chatOf(1, 0);
  const held = await Promise.all(
    replicas.flatMap((replica, index) => {
      const mine = places[index]!;
      return (isOneChat ? mine.slice(0, 1) : mine).map((ticket) => replica.acquireTurn(ticket));
    }),
  );
  const each = Math.max(2, Math.ceil(beats / count));
  let wrong = 0;
  const run = async (): Promise<void> => {
    for (let at = 0; at < each; at++) await clock.advance(BEAT_MS);
  };
  return {
    measure: async () => {
      const before = beatsOf(still);
      const cpuUs = await cpuUsOf(run);
      const sent = beatsOf(still) - before;
      // What the arithmetic of a mesh rests on: one heartbeat of each replica in a sixth of a lease.
      if (sent !== each * count) wrong += 1;
      return cpuUs / sent;
    },
    close: async () => {
      for (const turn of held) if (turn.signal.aborted) wrong += 1;
      await still.close();
      return wrong;
    },
  };
}

function beatsOf({ mesh, replicas }: StillMesh): number {
  return replicas.reduce((sum, replica) => sum + mesh.counts(replica).requests.beat, 0);
}

/** Microseconds of CPU of the store's step alone, nothing held: the transition, without the engine. */
export function stepCase(line: string, replicas: number, beats: number): Case {
  return { line, x: replicas, open: async () => openStep(replicas, beats) };
}

function openStep(count: number, beats: number): Open {
  const record = emptyRecord();
  const config = { format: 1, leaseMs: LEASE_MS, shards: 1 };
  let nowMs = 1_000;
  const epochs = Array.from({ length: count }, (_, at) => {
    const name = `replica-${at}`;
    const request = { replicaId: name, instance: name, firstEpoch: 0, config, adopts: false, seen: 0 };
    const answer = transitions.join(record, request, { nowMs, run: 'run' }, []);
    return answer.kind === 'joined' ? answer.epoch : 0;
  });
  let number = 0;
  let wrong = 0;
  const each = Math.max(2, Math.ceil((50 * beats) / count));
  const beatOnce = (epoch: number, at: number): void => {
    const request = { epoch, instance: `replica-${at}`, beat: number, era: record.era, watchedMs: nowMs, seen: 0 };
    const rest = { adopts: false, answered: 0, heard: 0, view: [] };
    const answer = transitions.beat(record, { ...request, ...rest }, { nowMs, run: 'run' }, []);
    if (answer.kind !== 'alive') wrong += 1;
  };
  const run = async (): Promise<void> => {
    for (let round = 0; round < each; round++) {
      number += 1;
      nowMs += BEAT_MS;
      epochs.forEach(beatOnce);
    }
  };
  return {
    measure: async () => (await cpuUsOf(run)) / (each * count),
    close: async () => wrong,
  };
}
