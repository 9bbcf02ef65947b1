import { machine } from '../lib/machine.js';
import { shown, table } from '../lib/table.js';
import { FULL, QUICK } from './effort.js';
import { measure } from './measure.js';
import { rows, violations } from './report.js';

/** Measures botmesh in one process beside a plain promise chain, and prints what came of it. True when nothing went wrong. */
export async function benchInProcess(isQuick: boolean): Promise<boolean> {
  const effort = isQuick ? QUICK : FULL;
  const startedMs = performance.now();
  const on = machine();
  const figures = await measure(effort);
  const wrong = violations(figures);
  const lines = rows(figures);

  console.log(`Node ${on.node}, ${on.cores} × ${on.cpu}, load ${on.load1}; ${effort.rounds} rounds, interleaved.\n`);
  console.log(
    table(
      ['what', 'who', 'median (min..max)', 'ratio (min..max)', 'goal'],
      lines.map(({ what, who, value, unit, ratio, goal }) => [
        what,
        who,
        `${shown(value)} ${unit}`,
        ratio === undefined ? '' : shown(ratio),
        goal ?? '',
      ]),
    ),
  );
  console.log(`\nOverlaps ${wrong.overlaps}, disorder ${wrong.disorder}, losses ${wrong.losses}.`);
  const seconds = Math.round((performance.now() - startedMs) / 1000);
  console.log(
    JSON.stringify({ bench: 'in-process', at: new Date().toISOString(), seconds, ...on, ...wrong, rows: lines }),
  );
  return wrong.overlaps + wrong.disorder + wrong.losses === 0;
}
