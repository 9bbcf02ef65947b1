import { shown, table } from '../lib/table.js';
import { FULL, QUICK } from './effort.js';
import { measure, PARTS } from './measure.js';
import { write } from './page.js';
import type { Plot } from './plot.js';

export interface Wanted {
  readonly isQuick: boolean;
  /** The parts; all of them where it is empty. */
  readonly only: readonly string[];
  /** Whether the page in docs is written anew with what was measured. */
  readonly isWritten: boolean;
}

/** Measures how cost grows, and prints what came of it. True when nothing went wrong. */
export async function benchGrowth({ isQuick, isWritten, only }: Wanted): Promise<boolean> {
  const effort = isQuick ? QUICK : FULL;
  const unknown = only.filter((name) => !PARTS.includes(name));
  if (unknown.length > 0) throw new Error(`growth has no part ${unknown.join(', ')}. It has ${PARTS.join(', ')}.`);
  const plots: Plot[] = [];
  for (const part of only.length === 0 ? PARTS : only) {
    const measured = await measure(part, effort);
    for (const plot of measured) print(plot);
    // At once: all of it takes minutes.
    if (isWritten) write(measured.filter(isSound));
    plots.push(...measured);
  }
  console.log(`\n${JSON.stringify({ bench: 'growth', plots })}`);
  return plots.every(isSound);
}

function isSound({ violations }: Plot): boolean {
  return violations === 0;
}

function print({ lines, on, title, seconds, violations, x, y }: Plot): void {
  console.log(`\n${title}; ${seconds} s, load ${on.load1}, violations ${violations}\n`);
  const rows = lines.flatMap(({ name, points }) =>
    points.map((point) => [name, point.x.toLocaleString('en'), shown(point)]),
  );
  console.log(table(['line', x, y], rows));
}
