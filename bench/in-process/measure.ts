import { type Spread, spread } from '../lib/stats.js';
import { contenders } from './contenders.js';
import type { Effort } from './effort.js';
import { handOverUs } from './handover.js';
import { heartbeatShare } from './heartbeat.js';
import { type Latencies, latencies } from './latency.js';
import { type Memory, memory } from './memory.js';
import { type Rates, rates } from './rates.js';

export const FEW_WAITING = 2;
export const MANY_WAITING = 10_000;

export interface Figures {
  readonly rates: readonly Rates[];
  readonly latencies: readonly Latencies[];
  readonly memory: readonly (Memory & { readonly contender: string })[];
  readonly handOver: { readonly fewUs: readonly number[]; readonly manyUs: readonly number[] };
  /** Of one core. */
  readonly heartbeatShare: Spread;
}

/** Everything that can be measured in one process. */
export async function measure(effort: Effort): Promise<Figures> {
  return {
    rates: await rates(effort),
    latencies: await latencies(effort),
    memory: await memories(effort.chatsHeld),
    handOver: await handOver(effort),
    heartbeatShare: await heartbeat(effort),
  };
}

async function memories(chats: number): Promise<Figures['memory']> {
  const figures = [];
  for (const contender of contenders) {
    // The first run also pays for what is made once, such as compiled code.
    await memory(contender, chats);
    figures.push({ contender: contender.name, ...(await memory(contender, chats)) });
  }
  return figures;
}

async function handOver({ rounds, handOvers }: Effort): Promise<Figures['handOver']> {
  const fewUs: number[] = [];
  const manyUs: number[] = [];
  await handOverUs(FEW_WAITING, handOvers);
  await handOverUs(MANY_WAITING, handOvers);
  for (let round = 0; round < rounds; round++) {
    fewUs.push(await handOverUs(FEW_WAITING, handOvers));
    manyUs.push(await handOverUs(MANY_WAITING, handOvers));
  }
  return { fewUs, manyUs };
}

async function heartbeat({ rounds, chatsHeld, beats }: Effort): Promise<Spread> {
  const shares: number[] = [];
  for (let round = 0; round < Math.min(rounds, 3); round++) shares.push(await heartbeatShare(chatsHeld, beats));
  return spread(shares);
}
