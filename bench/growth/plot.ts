// How a cost grows with something: cases that are measured in turn, and the lines they make.
import { machine } from '../lib/machine.js';
import { type Spread, spread } from '../lib/stats.js';

/** Of one case: what it cost, at `x` of what grows. */
export interface Point extends Spread {
  readonly x: number;
}

export interface Line {
  readonly name: string;
  readonly points: readonly Point[];
}

export interface About {
  /** Also of its file. */
  readonly name: string;
  readonly title: string;
  /** What grows. */
  readonly x: string;
  /** What it costs, with its unit. */
  readonly y: string;
}

/** A plot as it is kept: plain data. */
export interface Plot extends About {
  readonly at: string;
  readonly seconds: number;
  readonly rounds: number;
  readonly on: ReturnType<typeof machine>;
  readonly lines: readonly Line[];
  /** How often something was wrong, over all runs: 0, or nothing here counts. */
  readonly violations: number;
}

export interface Case {
  readonly line: string;
  readonly x: number;
  open(): Promise<Open>;
}

/** A case, open from the first round to the last. */
export interface Open {
  /** One round's figure. */
  measure(): Promise<number>;
  /** Resolves with how often something was wrong. */
  close(): Promise<number>;
}

export interface Rounds {
  readonly rounds: number;
  /** Rounds before those that count. */
  readonly warmUps: number;
}

/** Measures all cases in each round, in turn. */
export async function plot(about: About, cases: readonly Case[], { rounds, warmUps }: Rounds): Promise<Plot> {
  const startedMs = performance.now();
  const open: Open[] = [];
  for (const each of cases) open.push(await each.open());
  const values: number[][] = cases.map(() => []);
  for (let round = -warmUps; round < rounds; round++) {
    for (let turn = 0; turn < open.length; turn++) {
      // Each round begins with another one: no place in the row is always somebody's.
      const at = (turn + round + warmUps) % open.length;
      const value = await open[at]!.measure();
      if (round >= 0) values[at]!.push(value);
    }
  }
  let violations = 0;
  for (const each of open) violations += await each.close();
  const lines = linesOf(cases, values);
  return drawn(about, { startedMs, rounds, lines, violations });
}

/** The rest of a plot whose lines were measured. */
export function drawn(
  about: About,
  done: { startedMs: number; rounds: number; lines: readonly Line[]; violations: number },
): Plot {
  const { startedMs, ...figures } = done;
  const seconds = Math.round((performance.now() - startedMs) / 1000);
  return { ...about, at: new Date().toISOString(), seconds, on: machine(), ...figures };
}

function linesOf(cases: readonly Case[], values: readonly (readonly number[])[]): Line[] {
  const names = [...new Set(cases.map(({ line }) => line))];
  return names.map((name) => ({
    name,
    points: cases.flatMap(({ line, x }, at) => (line === name ? [{ x, ...spread(values[at]!) }] : [])),
  }));
}

/** Microseconds of CPU of this process, garbage collection and all, until `work` is done. */
export async function cpuUsOf(work: () => Promise<void>): Promise<number> {
  const before = process.cpuUsage();
  await work();
  const { user, system } = process.cpuUsage(before);
  return user + system;
}
