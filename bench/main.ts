// Measures botmesh in one process beside a plain promise chain: `npm run bench`, or `npm run bench -- --quick`.
import { FULL, QUICK } from './in-process/effort.js';
import { measure } from './in-process/measure.js';
import { rows, violations } from './in-process/report.js';
import { machine } from './lib/machine.js';
import { shown, table } from './lib/table.js';

const effort = process.argv.includes('--quick') ? QUICK : FULL;
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
if (wrong.overlaps + wrong.disorder + wrong.losses > 0) process.exitCode = 1;
