// The page of docs/growth.md: plots and tables are written by the bench, the rest by hand.
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { shown, table } from '../lib/table.js';
import { chart } from './chart.js';
import type { Plot } from './plot.js';

const isSource = import.meta.url.endsWith('.ts');
const root = new URL(isSource ? '../../' : '../../../', import.meta.url);
const page = fileURLToPath(new URL('docs/growth.md', root));
const folder = fileURLToPath(new URL('docs/growth/', root));
const kept = `${folder}figures.json`;

/** The plots as they were last written. */
export function keptPlots(): Plot[] {
  return existsSync(kept) ? (JSON.parse(readFileSync(kept, 'utf8')) as Plot[]) : [];
}

/** Writes these plots in place of those that have their names; the others stay. */
export function write(plots: readonly Plot[]): void {
  mkdirSync(folder, { recursive: true });
  const names = new Set(plots.map(({ name }) => name));
  const all = [...keptPlots().filter(({ name }) => !names.has(name)), ...plots];
  all.sort((a, b) => (a.name < b.name ? -1 : 1));
  writeFileSync(kept, `${JSON.stringify(all, null, 2)}\n`);
  for (const plot of all) writeFileSync(`${folder}${plot.name}.svg`, chart(plot));
  writeFileSync(page, filled(readFileSync(page, 'utf8'), all));
}

/** The page with its figures put in, each between `<!-- figures: name -->` and `<!-- end -->`. */
export function filled(text: string, plots: readonly Plot[]): string {
  return text.replace(/(<!-- figures: ([\w-]+) -->\n).*?(<!-- end -->)/gs, (_all, begin: string, name, end: string) => {
    const plot = plots.find((each) => each.name === name);
    return `${begin}${plot === undefined ? '' : `\n${section(plot)}\n\n`}${end}`;
  });
}

function section(plot: Plot): string {
  const { at, lines, name, on, rounds, title, violations, x, y } = plot;
  const xs = [...new Set(lines.flatMap(({ points }) => points.map((point) => point.x)))].sort((a, b) => a - b);
  const rows = xs.map((value) => [
    value.toLocaleString('en'),
    ...lines.map(({ points }) => {
      const point = points.find((each) => each.x === value);
      return point === undefined ? '' : shown(point);
    }),
  ]);
  const machine = `Node ${on.node.slice(1)}, ${on.cores} × ${on.cpu}, load ${on.load1}`;
  return [
    `![${title}: ${y}, by ${x}](growth/${name}.svg)`,
    '',
    table([x, ...lines.map((line) => `${y}: ${line.name}`)], rows),
    '',
    `${at.slice(0, 10)}, ${machine}; ${rounds} rounds; violations ${violations}.`,
  ].join('\n');
}
