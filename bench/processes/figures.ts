import { quantile } from '../lib/stats.js';
import type { Run } from './run.js';
import { type Turn, unpacked } from './TurnLog.js';
import { byChat } from './violations.js';

export interface Figure {
  readonly title: string;
  readonly unit: string;
  of(run: Run): number;
}

/** What can be told of a run. */
export const FIGURES = {
  rate: {
    title: 'turns/s, all processes',
    unit: '/s',
    of: ({ outcomes }) => sum(outcomes.map(({ count }) => (1000 * count.turns) / count.countedMs)),
  },
  cpu: {
    title: 'CPU of 1,000 turns',
    unit: 'ms',
    of: ({ outcomes }) =>
      (1000 * sum(outcomes.map(({ count }) => count.cpuMs))) / sum(outcomes.map(({ count }) => count.turns)),
  },
  handOverP50: { title: 'hand-over between processes, p50', unit: 'µs', of: (run) => handOverUs(run, 0.5) },
  handOverP99: { title: 'hand-over between processes, p99', unit: 'µs', of: (run) => handOverUs(run, 0.99) },
  addedP50: { title: 'added latency, p50', unit: 'µs', of: (run) => addedUs(run, 0.5) },
  addedP99: { title: 'added latency, p99', unit: 'µs', of: (run) => addedUs(run, 0.99) },
  share: {
    title: 'turns of the process that got the least',
    unit: '%',
    of: ({ outcomes }) => {
      const counts = outcomes.map(({ count }) => count.turns);
      return (100 * Math.min(...counts)) / sum(counts);
    },
  },
  block: {
    title: 'longest stop of an event loop',
    unit: 'ms',
    of: ({ outcomes }) => Math.max(...outcomes.map(({ blockMs }) => blockMs)),
  },
  cpuShare: {
    title: 'CPU of a process',
    unit: '% of a core',
    of: ({ outcomes }) => sum(outcomes.map(({ count }) => (100 * count.cpuMs) / count.countedMs)) / outcomes.length,
  },
  took: { title: 'until all were handled', unit: 's', of: (run) => tookUs(run) / 1_000_000 },
  allCpu: {
    title: 'CPU of 1,000 messages',
    unit: 'ms',
    of: ({ outcomes }) =>
      (1000 * sum(outcomes.map(({ count }) => count.cpuMs))) / sum(outcomes.map(({ submitted }) => submitted)),
  },
  crash: { title: 'until the next turn', unit: 'ms', of: ({ crashMs }) => crashMs ?? Number.NaN },
} as const satisfies Record<string, Figure>;

/** What is told of each load. */
export const TOLD: Readonly<Record<string, readonly (keyof typeof FIGURES)[]>> = {
  W1: ['rate', 'handOverP50', 'handOverP99', 'share'],
  W1h: ['handOverP50'],
  W2: ['rate', 'cpu', 'block'],
  W2p: ['addedP50', 'addedP99'],
  W3: ['took', 'allCpu'],
  W2b: ['took', 'allCpu'],
  W1x4: ['rate', 'handOverP50', 'handOverP99', 'block'],
  W2x4: ['rate', 'cpu', 'block'],
  held: ['cpuShare', 'block'],
  idle: ['cpuShare'],
  crash: ['crash'],
};

export function turnsOf({ outcomes }: Run): Turn[] {
  return outcomes.flatMap(({ turns }, lane) => unpacked(turns, lane));
}

/** From the end of a handler to the start of the next one, in another process, that was waiting by then. */
function handOverUs(run: Run, share: number): number {
  const tookUs: number[] = [];
  for (const chat of byChat(turnsOf(run))) {
    for (let at = 1; at < chat.length; at++) {
      const [before, turn] = [chat[at - 1]!, chat[at]!];
      if (before.lane !== turn.lane && turn.placedUs <= before.endedUs) tookUs.push(turn.startedUs - before.endedUs);
    }
  }
  return quantile(Float64Array.from(tookUs).sort(), share);
}

/** From the first call to the end of the last handler. */
function tookUs(run: Run): number {
  let firstUs = Number.POSITIVE_INFINITY;
  let lastUs = Number.NEGATIVE_INFINITY;
  for (const { calledUs, endedUs } of turnsOf(run)) {
    firstUs = Math.min(firstUs, calledUs);
    lastUs = Math.max(lastUs, endedUs);
  }
  return lastUs - firstUs;
}

/** From the call to the start of the handler. */
function addedUs(run: Run, share: number): number {
  return quantile(Float64Array.from(turnsOf(run).map((turn) => turn.startedUs - turn.calledUs)).sort(), share);
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}
