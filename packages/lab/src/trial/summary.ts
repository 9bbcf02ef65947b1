import type { Violation } from '@botmesh/core/testing';
import type { Figures, Gap } from './figures.js';
import type { Struck } from './Nemesis.js';
import type { Trial } from './trial.js';

/** What a trial came to, in lines of text. */
export function summaryOf(trial: Trial, figures: Figures): string[] {
  const { overlaps, order, lost, other } = figures.violations;
  return [
    `${trial.backend}, seed ${trial.seed}: ${seconds(trial.harmedAt - trial.startedAt)} to start, ${seconds(trial.healedAt - trial.harmedAt)} of harm, ` +
      `${seconds(trial.endedAt - trial.healedAt)} to come to rest; ${figures.turns} turns`,
    `messages: ${figures.received} received, ${figures.handled} handled, ${figures.adopted} taken up again, ${figures.doubled} handled twice`,
    `places refused: ${figures.refused}`,
    `faults: ${[...figures.faults].map(([kind, times]) => `${times} ${kind}`).join(', ') || 'none'}`,
    `without any turn: ${gapText(figures.gaps, trial)}`,
    `from a kill to the next turn: ${takeoverText(figures.takeoversMs)}`,
    `violations: ${overlaps} overlaps, ${order} of order, ${lost} lost, ${other} other`,
    ...firstOfEach(trial.violations),
    ...(trial.failure === undefined ? [] : [`not judged to the end: ${trial.failure}`]),
  ];
}

/** One of each rule: the rest is mostly the same again. */
function firstOfEach(violations: readonly Violation[]): string[] {
  const rules = [...new Set(violations.map(({ rule }) => rule))];
  return rules.map((wanted) => {
    const found = violations.filter(({ rule }) => rule === wanted);
    return `  ${wanted}, ${found.length} times, first: ${found[0]!.text}`;
  });
}

function gapText(gaps: readonly Gap[], trial: Trial): string {
  const [longest] = gaps;
  if (longest === undefined) return `never for half a lease (${trial.leaseMs / 2} ms)`;
  const sum = gaps.reduce((total, { from, to }) => total + to - from, 0);
  const during = trial.struck.filter((fault) => overlap(fault, longest)).map(({ kind }) => kind);
  const why = during.length === 0 ? '' : ` (${[...new Set(during)].join(', ')})`;
  return `${gaps.length} times for more than half a lease, ${seconds(sum)} together, ${seconds(longest.to - longest.from)} at most${why}`;
}

function overlap({ at, until }: Struck, { from, to }: Gap): boolean {
  return at < to && from < until;
}

function takeoverText(waits: readonly number[]): string {
  if (waits.length === 0) return 'nobody was killed holding one';
  const median = waits[Math.floor(waits.length / 2)]!;
  return `${seconds(median)} in the middle, ${seconds(waits.at(-1)!)} at most, of ${waits.length}`;
}

function seconds(ms: number): string {
  return `${(ms / 1000).toFixed(1)} s`;
}
