import type { Violations } from '../lib/Checker.js';
import { FIGURES, TOLD, turnsOf } from './figures.js';
import type { Load } from './loads.js';
import { type Run, run } from './run.js';
import type { Backend, Subject } from './subject.js';
import { overtakenOf, violationsOf } from './violations.js';

/** How much is measured. What is measured stays the same. */
export interface Effort {
  readonly rounds: number;
  readonly runMs: number;
  /** Before each run. */
  readonly warmMs: number;
  /** Of a load in which next to nothing happens: several heartbeats. */
  readonly heldMs: number;
}

export const FULL: Effort = { rounds: 5, runMs: 2_000, warmMs: 1_000, heldMs: 8_000 };
/** Enough to see that all of it works, too little to say how fast. */
export const QUICK: Effort = { rounds: 1, runMs: 400, warmMs: 100, heldMs: 400 };

/** All rounds of one subject under one load: a value for each round, by figure. */
export interface Series extends Violations {
  readonly load: Load;
  readonly subject: Subject;
  readonly values: Readonly<Record<string, readonly number[]>>;
  readonly errors: readonly string[];
  /** Messages that one which came clearly later went before. */
  readonly overtaken: number;
}

/** Measures every subject of a backend under one load, all in turn within a round. */
export async function measure(backend: Backend, load: Load, effort: Effort): Promise<Series[]> {
  const { warmMs } = effort;
  const runMs = load.kind === 'held' ? effort.heldMs : effort.runMs;
  const subjects = backend.subjects.filter((subject) => subject.loads?.includes(load.name) ?? true);
  const runs: Run[][] = subjects.map(() => []);
  for (let round = 0; round < Math.min(effort.rounds, load.rounds ?? effort.rounds); round++) {
    for (let turn = 0; turn < subjects.length; turn++) {
      // Each round begins with another one: no place in the row is always somebody's.
      const at = (turn + round) % subjects.length;
      runs[at]!.push(await run(backend, subjects[at]!, load, { runMs, warmMs }));
    }
  }
  return subjects.map((subject, at) => seriesOf(load, subject, runs[at]!));
}

function seriesOf(load: Load, subject: Subject, runs: readonly Run[]): Series {
  const values = Object.fromEntries(
    (TOLD[load.name] ?? []).map((name) => [name, runs.map((each) => FIGURES[name].of(each))]),
  );
  const sum = { overlaps: 0, disorder: 0, losses: 0 };
  for (const each of runs) {
    const submitted = each.outcomes.reduce((total, outcome) => total + outcome.submitted, 0);
    const { overlaps, disorder, losses } = violationsOf(turnsOf(each), submitted);
    sum.overlaps += overlaps;
    sum.disorder += disorder;
    sum.losses += losses;
  }
  return {
    load,
    subject,
    values,
    ...sum,
    overtaken: runs.reduce((total, each) => total + overtakenOf(turnsOf(each)), 0),
    errors: runs.flatMap(({ outcomes }) => outcomes.flatMap(({ errors }) => errors)),
  };
}
