import type { Violations } from '../lib/Checker.js';
import { ratio, type Spread, spread } from '../lib/stats.js';
import { MESSAGES_PER_SECOND } from './latency.js';
import type { Run } from './loads.js';
import { FEW_WAITING, type Figures, MANY_WAITING } from './measure.js';

/** One line of the table. Ratios are taken round by round. */
export interface Row {
  readonly what: string;
  readonly who: string;
  readonly unit: string;
  readonly value: Spread;
  /** Undefined where there is nothing to compare with. */
  readonly ratio?: Spread;
  readonly goal?: string;
}

/** The figures as rows, in the order in which they are read. */
export function rows(figures: Figures): Row[] {
  return [...rateRows(figures), ...cpuRows(figures), ...latencyRows(figures), ...restRows(figures)];
}

/** How often a message was handled wrongly, over all runs: 0, or nothing here counts. */
export function violations({ rates, latencies }: Figures): Violations {
  const sum = { overlaps: 0, disorder: 0, losses: 0 };
  for (const { overlaps, disorder, losses } of [...rates, ...latencies]) {
    sum.overlaps += overlaps;
    sum.disorder += disorder;
    sum.losses += losses;
  }
  return sum;
}

const CHAIN = 'promise chain';

/** Seconds of CPU: nothing here waits for anything, so on a core of its own they are seconds by the clock. */
function rateRows({ rates }: Figures): Row[] {
  return rates.map(({ load, contender, runs }) => ({
    what: load,
    who: contender,
    unit: 'messages/s of CPU',
    value: spread(perSecond(runs)),
    ratio: ratio(perSecond(runs), perSecond(runsOf(rates, load, CHAIN))),
    ...(contender === 'turns' && load.startsWith('W2') ? { goal: '≥ 0.2' } : {}),
  }));
}

/** What a Bot adds is compared with the same durable turns without one. */
function cpuRows({ rates }: Figures): Row[] {
  const ofW2 = rates.filter(({ load }) => load.startsWith('W2'));
  return ofW2.map(({ load, contender, runs }) => {
    const than = contender === 'Bot' ? 'accepted messages' : CHAIN;
    return {
      what: `CPU, W2${contender === 'Bot' ? `, over ${than}` : ''}`,
      who: contender,
      unit: 'µs/message',
      value: spread(cpuUs(runs)),
      ratio: ratio(cpuUs(runs), cpuUs(runsOf(rates, load, than))),
      ...(contender === 'Bot' ? { goal: '≤ 1.5' } : {}),
    };
  });
}

function latencyRows({ latencies }: Figures): Row[] {
  const chain = latencies.find(({ contender }) => contender === CHAIN)?.runs ?? [];
  const rate = `${MESSAGES_PER_SECOND.toLocaleString('en')}/s`;
  return latencies.flatMap(({ contender, runs }) =>
    (['p50Us', 'p99Us'] as const).map((which) => ({
      what: `${contender === CHAIN ? 'latency' : 'added latency'} ${which.slice(0, 3)} at ${rate}`,
      who: contender,
      unit: 'µs',
      value: spread(runs.map((run, at) => run[which] - (contender === CHAIN ? 0 : chain[at]![which]))),
    })),
  );
}

function restRows({ memory, handOver, heartbeatShare }: Figures): Row[] {
  const one = (value: number): Spread => ({ median: value, min: value, max: value });
  return [
    ...memory.map((figure) => ({
      what: 'kept for a chat in a turn',
      who: figure.contender,
      unit: 'bytes',
      value: one(figure.activeBytes),
    })),
    ...memory.map((figure) => ({
      what: 'kept for an idle chat',
      who: figure.contender,
      unit: 'bytes',
      value: one(figure.idleBytes),
    })),
    {
      what: `hand-over p50, ${FEW_WAITING} waiting`,
      who: 'turns, 2 replicas',
      unit: 'µs',
      value: spread(handOver.fewUs),
    },
    {
      what: `hand-over p50, ${MANY_WAITING.toLocaleString('en')} waiting`,
      who: 'turns, 2 replicas',
      unit: 'µs',
      value: spread(handOver.manyUs),
      ratio: ratio(handOver.manyUs, handOver.fewUs),
      goal: '≤ 1.5',
    },
    {
      what: 'heartbeats with 10,000 held turns',
      who: 'turns',
      unit: '% of a core',
      value: {
        median: heartbeatShare.median * 100,
        min: heartbeatShare.min * 100,
        max: heartbeatShare.max * 100,
      },
      goal: '≤ 1 %',
    },
  ];
}

function runsOf(rates: Figures['rates'], load: string, contender: string): readonly Run[] {
  return rates.find((each) => each.load === load && each.contender === contender)?.runs ?? [];
}

function perSecond(runs: readonly Run[]): number[] {
  return runs.map((run) => 1e6 / run.cpuUsPerMessage);
}

function cpuUs(runs: readonly Run[]): number[] {
  return runs.map((run) => run.cpuUsPerMessage);
}
