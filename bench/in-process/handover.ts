import type { ChatTurn } from '@botmesh/core/spi';
import { MemoryCoordinator, MemoryMesh } from '@botmesh/core/testing';
import { quantile } from '../lib/stats.js';

/**
 * Microseconds (p50) from one replica's release to the other's turn, while `waiting` tickets of two replicas wait in
 * one chat. Each hand-over is followed by a new ticket at the end, so that their number stays.
 */
export async function handOverUs(waiting: number, times: number): Promise<number> {
  const mesh = new MemoryMesh();
  const replicas = [new MemoryCoordinator({ mesh }), new MemoryCoordinator({ mesh })] as const;
  await Promise.all(replicas.map((replica) => replica.start()));
  let reserved = 0;
  const queueUp = async (): Promise<{ turn: Promise<ChatTurn> }> => {
    const replica = replicas[reserved++ % 2]!;
    // Wrapped, or the caller would wait for the turn and not for the place.
    return { turn: replica.acquireTurn(await replica.reserve('chat')) };
  };
  const queue: Promise<ChatTurn>[] = [];
  for (let at = 0; at <= waiting; at++) queue.push((await queueUp()).turn);

  const tookUs = new Float64Array(times);
  let turn = await queue[0]!;
  for (let at = 0; at < times; at++) {
    const startedMs = performance.now();
    void turn.release();
    turn = await queue[at + 1]!;
    tookUs[at] = (performance.now() - startedMs) * 1000;
    queue.push((await queueUp()).turn);
  }
  for (const rest of queue.slice(times + 1)) rest.catch(() => {});
  await Promise.all(replicas.map((replica) => replica.stop()));
  return quantile(tookUs.sort(), 0.5);
}
