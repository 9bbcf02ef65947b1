import { Checker, type Message } from '../lib/Checker.js';
import { type Case, cpuUsOf, type Open } from './plot.js';
import { stillMesh } from './still.js';

/** A prime: it meets every chat before it meets one again. */
const STRIDE = 7919;

export interface TurnLoad {
  readonly replicas: number;
  readonly chats: number;
  /** In all. */
  readonly outstanding: number;
}

/** Microseconds of CPU of a turn: reserve, acquire, an empty handler, release. Messages come to all replicas in turn. */
export function turnCase(line: string, x: number, load: TurnLoad, turns: number): Case {
  return { line, x, open: () => openTurns(load, turns) };
}

async function openTurns({ replicas: count, chats, outstanding }: TurnLoad, turns: number): Promise<Open> {
  const { replicas, close } = await stillMesh(count);
  const checker = new Checker(chats, count);
  const names = Array.from({ length: chats }, (_, at) => `chat-${at}`);
  const numbers = new Uint32Array(chats * count);
  let sent = 0;

  const next = (): Message => {
    const chatIndex = (sent * STRIDE) % chats;
    // One further in each lap, or a chat would always meet the same replica.
    const lane = (sent + Math.floor(sent / chats)) % count;
    sent += 1;
    const number = ++numbers[chatIndex * count + lane]!;
    return { chat: names[chatIndex]!, chatIndex, lane, number, calledMs: 0 };
  };
  const handle = async (message: Message): Promise<void> => {
    const replica = replicas[message.lane]!;
    const turn = await replica.acquireTurn(await replica.reserve(message.chat));
    checker.begin(message, turn.fence);
    await Promise.resolve();
    checker.end(message);
    await turn.release();
  };
  const run = async (): Promise<void> => {
    let left = turns;
    const caller = async (): Promise<void> => {
      while (left > 0) {
        left -= 1;
        await handle(next());
      }
    };
    await Promise.all(Array.from({ length: Math.min(outstanding, turns) }, caller));
  };
  return {
    measure: async () => (await cpuUsOf(run)) / turns,
    close: async () => {
      await close();
      const { disorder, losses, overlaps } = checker.violations(sent);
      return disorder + losses + overlaps;
    },
  };
}
