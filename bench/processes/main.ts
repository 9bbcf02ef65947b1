import { loadavg } from 'node:os';
import { row, shown, table } from '../lib/table.js';
import { loads } from './loads.js';
import { FULL, measure, QUICK, type Series } from './measure.js';
import { type Row, rows } from './report.js';
import type { Backend } from './subject.js';

/** What was asked for: `only` names the loads, all of them where it is empty. */
export interface Wanted {
  readonly isQuick: boolean;
  readonly only: readonly string[];
}

/** Measures a backend's subjects in processes of their own, and prints what came of it. True when ours did nothing wrong. */
export async function benchProcesses(backend: Backend, { isQuick, only }: Wanted): Promise<boolean> {
  const effort = isQuick ? QUICK : FULL;
  const startedMs = performance.now();
  const loadBefore = load1();
  const chosen = loads.filter(({ name }) =>
    only.length === 0 ? (backend.loads?.includes(name) ?? true) : only.includes(name),
  );
  console.log(`\n${backend.name}: load ${loadBefore} before; ${effort.rounds} rounds, interleaved.\n`);
  console.log(table(['what', 'who', 'median (min..max)', 'ratio (min..max)', 'goal'], []));
  const all: Series[] = [];
  for (const load of chosen) {
    const series = await measure(backend, load, effort);
    // At once: all of it takes minutes.
    for (const line of rows(backend, series)) console.log(row(cells(line)));
    all.push(...series);
  }
  const lines = rows(backend, all);
  const wrong = all.map(({ load, subject, overlaps, disorder, losses, overtaken, errors }) => ({
    ...{ load: load.name, who: subject.name, isOurs: subject.isOurs, overlaps, disorder, losses, overtaken, errors },
  }));

  console.log('');
  console.log(
    table(
      ['load', 'who', 'overlaps', 'disorder', 'losses', 'overtaken', 'errors'],
      wrong.map(({ load, who, overlaps, disorder, losses, overtaken, errors }) => [
        ...[
          load,
          who,
          String(overlaps),
          String(disorder),
          String(losses),
          String(overtaken),
          [...new Set(errors)].join('; '),
        ],
      ]),
    ),
  );
  const seconds = Math.round((performance.now() - startedMs) / 1000);
  const figures = { bench: backend.name, at: new Date().toISOString(), seconds, loadBefore, loadAfter: load1() };
  console.log(`\n${JSON.stringify({ ...figures, rows: lines, wrong })}`);
  return wrong.every(({ isOurs, overlaps, disorder, losses }) => !isOurs || overlaps + disorder + losses === 0);
}

function cells({ what, who, value, unit, ratio, goal, isMissed }: Row): string[] {
  const judged = goal === undefined ? '' : `${goal}${isMissed === true ? ', missed' : ''}`;
  return [what, who, `${shown(value)} ${unit}`, ratio === undefined ? '' : shown(ratio), judged];
}

function load1(): string {
  return (loadavg()[0] ?? 0).toFixed(2);
}
