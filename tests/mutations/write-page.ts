// Writes docs/mutation-controls.md.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { render } from './render.js';
import { MUTATIONS } from './table.js';

writeFileSync(join(process.cwd(), 'docs/mutation-controls.md'), render(MUTATIONS));
