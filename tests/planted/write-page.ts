// Writes docs/planted-bugs.md from the last report of `npm test`; with --partial what it has not is left open.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { readReport } from '../guarantees/report.js';
import { render } from './overview.js';

writeFileSync(join(process.cwd(), 'docs/planted-bugs.md'), render(readReport(), process.argv.includes('--partial')));
