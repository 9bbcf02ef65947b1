import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { chart } from './chart.js';
import { QUICK } from './effort.js';
import { IN_PROCESS, measure, PARTS } from './measure.js';
import { filled, keptPlots } from './page.js';

const docs = new URL('../../docs/', import.meta.url);
const page = readFileSync(new URL('growth.md', docs), 'utf8');
const drawings = readdirSync(new URL('growth/', docs)).filter((name) => name.endsWith('.svg'));

test.each(IN_PROCESS)(
  'a quick run of the growth of %s does nothing wrong, and gives figures that can be drawn',
  async (part) => {
    for (const plot of await measure(part, QUICK)) {
      const points = plot.lines.flatMap((line) => line.points);

      expect(plot.violations).toBe(0);
      expect(points.length).toBeGreaterThan(2);
      expect(points.filter(({ max, median, min }) => !(min > 0 && median >= min && max < 1e9))).toEqual([]);
      expect(chart(plot)).not.toMatch(/NaN|Infinity|undefined/);
    }
  },
  60_000,
);

test('the page of growth shows every plot that is kept, and none that is not', () => {
  const shown = [...page.matchAll(/\]\(growth\/([\w-]+\.svg)\)/g)].map(([, name]) => name);

  expect(shown.filter((name) => !existsSync(new URL(`growth/${name}`, docs)))).toEqual([]);
  expect(new Set(shown)).toEqual(new Set(drawings));
  expect(new Set(shown)).toEqual(new Set(keptPlots().map(({ name }) => `${name}.svg`)));
  expect(drawings.length).toBeGreaterThanOrEqual(PARTS.length);
});

test('the figures and drawings of the page of growth are those that were measured', () => {
  const plots = keptPlots();
  const other = plots.filter((plot) => readFileSync(new URL(`growth/${plot.name}.svg`, docs), 'utf8') !== chart(plot));

  expect(filled(page, plots)).toBe(page);
  expect(other.map(({ name }) => name)).toEqual([]);
  expect(plots.filter(({ violations }) => violations !== 0)).toEqual([]);
});
