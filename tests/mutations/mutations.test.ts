// Each rule switched off must turn something red: a suite that stays green without a rule does not test it.
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { PROMISES } from '@botmesh/core/testing';
import { beforeAll, describe, expect, test } from 'vitest';
import { render } from './render.js';
import { runPatched } from './run.js';
import { MUTATIONS } from './table.js';

const root = process.cwd();
const SEEDS = 500;

beforeAll(() => {
  // What runs is the built code: it has to be that of these sources.
  execFileSync('npx', ['tsc', '-b', 'tsconfig.json', 'tsconfig.test.json'], { cwd: root, stdio: 'inherit' });
}, 120_000);

test('every promise is seen red by some rule switched off', () => {
  const seen = new Set(MUTATIONS.flatMap(({ promises }) => promises));
  const numbers = Object.keys(PROMISES)
    .map(Number)
    .filter((number) => number > 0);

  expect(numbers.filter((number) => !seen.has(number))).toEqual([]);
});

test('every rule switched off names a test that must turn red', () => {
  const without = MUTATIONS.filter(({ promises, facts = [] }) => promises.length + facts.length === 0);

  expect(without).toEqual([]);
});

test('the page of all controls is up to date: node tests/dist/mutations/write-page.js', () => {
  const page = readFileSync(`${root}/docs/mutation-controls.md`, 'utf8');

  expect(page).toBe(render(MUTATIONS));
});

test('with every rule in place everything is green', async () => {
  const { red, green, found } = await runPatched([], 'all', 20);

  expect(red).toEqual([]);
  expect(found).toBeUndefined();
  expect(green).toBeGreaterThan(100);
}, 120_000);

/** So many runs at a time as a small machine has cores. */
const AT_ONCE = 2;
const lines = Array.from({ length: AT_ONCE }, () => Promise.resolve());

/** Runs `task` after those before it in its line. */
function inLine<T>(at: number, task: () => Promise<T>): Promise<T> {
  const before = lines[at % AT_ONCE]!;
  const done = before.then(task);
  lines[at % AT_ONCE] = done.then(
    () => {},
    () => {},
  );
  return done;
}

describe.concurrent('switched off:', () => {
  for (const [at, { name, patches, promises, facts = [], simulation }] of MUTATIONS.entries()) {
    test(name, async ({ expect, task }) => {
      const { red, found, ms } = await inLine(at, () => runPatched(patches, promises, simulation ? SEEDS : 0, facts));
      const caught = promises.filter((promise) => red.some((each) => each.promise === promise));
      const shown = facts.filter((title) => red.some((each) => each.title === title));
      const seed = found === undefined ? '' : `, seed ${found.seed}`;
      console.log(`${name}: caught by ${[...caught, ...shown].join(', ')}${seed} in ${(ms / 1000).toFixed(1)} s`);
      Object.assign(task.meta, { planted: { by: [...caught, ...shown].join(', '), ms } });

      expect(caught).toEqual([...promises]);
      expect(shown).toEqual([...facts]);
      if (simulation) expect(found, 'the seed that found it').toBeDefined();
    }, 600_000);
  }
});
