import type { ChatTurn } from '@botmesh/core/spi';
import { type Case, cpuUsOf, type Open } from './plot.js';
import { stillMesh } from './still.js';

/**
 * Microseconds of CPU of a hand-over in one chat in which `waiting` tickets wait, of one replica or of two in turn. Each
 * is followed by a new ticket at the end, so that their number stays: its cost is counted too.
 */
export function handOverCase(line: string, waiting: number, replicas: number, times: number): Case {
  return { line, x: waiting, open: () => openQueue(waiting, replicas, times) };
}

async function openQueue(waiting: number, count: number, times: number): Promise<Open> {
  const { replicas, close } = await stillMesh(count);
  const queue: Promise<ChatTurn>[] = [];
  let reserved = 0;
  let granted = 0;
  let wrong = 0;
  const queueUp = async (): Promise<void> => {
    const number = reserved++;
    const replica = replicas[number % count]!;
    const ticket = await replica.reserve('chat');
    const turn = replica.acquireTurn(ticket).then((got) => {
      if (number !== granted++) wrong += 1;
      return got;
    });
    // Those that still wait when it ends.
    turn.catch(() => {});
    queue.push(turn);
  };
  for (let at = 0; at <= waiting; at++) await queueUp();

  let held = await queue.shift()!;
  const run = async (): Promise<void> => {
    for (let at = 0; at < times; at++) {
      const { fence } = held;
      void held.release();
      await queueUp();
      held = await queue[at]!;
      if (held.fence <= fence) wrong += 1;
    }
    void queue.splice(0, times);
  };
  return {
    measure: async () => (await cpuUsOf(run)) / times,
    close: async () => {
      if (granted !== reserved - waiting) wrong += 1;
      await close();
      return wrong;
    },
  };
}
