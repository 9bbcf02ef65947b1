// Writes the matrix of docs/guarantees.md from the last report, which `--run` makes anew.
import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { gaps, inPage, render, shownBy } from './matrix.js';
import { REAL_FAULTS } from './real-faults.js';
import { REPORT, readReport } from './report.js';

const SUITES = ['conformance', 'coordinator.test', 'virtual.test', ...new Set(REAL_FAULTS.map(({ file }) => file))];

if (process.argv.includes('--run')) {
  const reporters = ['--reporter=default', '--reporter=json', `--outputFile.json=${REPORT}`];
  execFileSync('npx', ['vitest', 'run', ...reporters, ...SUITES], { stdio: 'inherit' });
}
const report = readReport();
const shown = shownBy(report);
const missing = gaps(shown, REAL_FAULTS, report);
if (missing.length > 0) throw new Error(`The report does not show all:\n${missing.join('\n')}`);
const page = join(process.cwd(), 'docs/guarantees.md');
writeFileSync(page, inPage(readFileSync(page, 'utf8'), render(shown, REAL_FAULTS)));
