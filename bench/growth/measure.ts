import type { Effort } from './effort.js';
import { heldCase, meshCase, stepCase, waitingCase } from './heartbeats.js';
import { type Plot, plot } from './plot.js';
import { handOverCase } from './queue.js';
import { turnCase } from './turns.js';

const TURN_CPU = 'µs of CPU of a turn';
const BEAT_CPU = 'µs of CPU of a heartbeat';

const parts: Readonly<Record<string, (effort: Effort) => Promise<Plot[]>>> = {
  replicas: async (effort) => [
    await plot(
      { name: 'replicas', title: 'A turn, by replicas', x: 'replicas', y: TURN_CPU },
      effort.replicas.flatMap((replicas) => [
        turnCase(
          '10,000 chats, 64 outstanding in all',
          replicas,
          { replicas, chats: 10_000, outstanding: 64 },
          effort.turns,
        ),
        turnCase(
          '10,000 chats, 32 outstanding on each replica',
          replicas,
          { replicas, chats: 10_000, outstanding: 32 * replicas },
          effort.turns,
        ),
        turnCase(
          'one hot chat, 64 outstanding in all',
          replicas,
          { replicas, chats: 1, outstanding: 64 },
          effort.turns,
        ),
      ]),
      effort,
    ),
  ],
  chats: async (effort) => [
    await plot(
      { name: 'chats', title: 'A turn, by chats', x: 'chats', y: TURN_CPU },
      effort.chats.flatMap((chats) =>
        [1, 2].map((replicas) =>
          turnCase(
            replicas === 1 ? 'one replica' : 'two replicas',
            chats,
            { replicas, chats, outstanding: 64 },
            effort.turns,
          ),
        ),
      ),
      effort,
    ),
  ],
  queue: async (effort) => [
    await plot(
      { name: 'queue', title: 'A hand-over, by what waits', x: 'waiting in one chat', y: 'µs of CPU of a hand-over' },
      effort.waiting.flatMap((waiting) => [
        handOverCase('within one replica', waiting, 1, effort.handOvers),
        handOverCase('between two replicas', waiting, 2, effort.handOvers),
      ]),
      effort,
    ),
  ],
  heartbeats: async (effort) => [
    await plot(
      { name: 'heartbeats', title: 'A heartbeat, by tickets', x: 'tickets of the replica', y: BEAT_CPU },
      effort.held.flatMap((tickets) => [
        heldCase('turns held, each of a chat', tickets, effort.beats),
        waitingCase('tickets of one chat, one held, the others waiting', tickets, effort.beats),
      ]),
      effort,
    ),
  ],
  mesh: async (effort) => [
    await plot(
      { name: 'mesh', title: 'A heartbeat, by replicas of the mesh', x: 'replicas', y: BEAT_CPU },
      effort.mesh.flatMap((replicas) => [
        meshCase('replica and store, 10 turns held on each', replicas, 10, effort.beats),
        meshCase('replica and store, nothing held', replicas, 0, effort.beats),
        stepCase("the store's step alone", replicas, effort.beats),
      ]),
      effort,
    ),
  ],
  processes: async (effort) => {
    const { processesOnRedis } = await import('./redis.js');
    return processesOnRedis(
      { name: 'processes', title: 'Turns on Redis, by processes', x: 'processes', y: 'turns/s' },
      { name: 'processes-cpu', title: 'A turn on Redis, by processes', x: 'processes', y: TURN_CPU },
      effort,
    );
  },
  'redis-mesh': async (effort) => {
    const { heartbeatsOnRedis } = await import('./redis.js');
    const about = { name: 'redis-mesh', title: 'A heartbeat on Redis, by replicas of the mesh' };
    return [await heartbeatsOnRedis({ ...about, x: 'replicas', y: 'µs of the server for a heartbeat' }, effort)];
  },
};

/** What can be measured: the first five need nothing but this process. */
export const PARTS: readonly string[] = Object.keys(parts);
export const IN_PROCESS: readonly string[] = PARTS.slice(0, 5);

/** The plots of a part. */
export function measure(part: string, effort: Effort): Promise<Plot[]> {
  return parts[part]!(effort);
}
