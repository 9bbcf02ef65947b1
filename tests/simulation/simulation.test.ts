import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { missing } from './coverage.js';
import { runSeeds } from './run-seeds.js';
import { simulate } from './simulate.js';
import { stretchTripwires } from './tripwires.js';

interface OldSeed {
  readonly seed: number;
  /** What was wrong once in this run. */
  readonly found: string;
}

const oldSeeds = JSON.parse(readFileSync(new URL('./seeds.json', import.meta.url), 'utf8')) as OldSeed[];
const replayed = process.env.BOTMESH_SEED;

if (replayed === undefined) {
  for (const { seed, found } of oldSeeds) {
    test(`seed ${seed} breaks no promise any more: ${found}`, async () => {
      expect((await runSeeds({ first: seed, count: 1 })).failures).toEqual([]);
    });
  }

  test('the same seed gives the same run', async () => {
    const [first, second] = [await simulate(7, { trace: true }), await simulate(7, { trace: true })];

    expect(first.trace.length).toBeGreaterThan(100);
    expect(second.trace).toEqual(first.trace);
    expect(second.fingerprint()).toBe(first.fingerprint());
  });

  test('a set of runs that never saw a fault says which', () => {
    expect(missing({ wipe: 3 })).toContain('rollback');
    expect(missing({ wipe: 3 })).not.toContain('wipe');
  });

  test('tripwires catch a real clock in the code under test, and go away again', () => {
    const takeAway = stretchTripwires();

    let caught = '';
    try {
      Date.now();
    } catch (error) {
      caught = String(error);
    }
    takeAway();

    expect(caught).toContain('now was used inside a simulation');
    expect(Date.now()).toBeGreaterThan(0);
  });
} else {
  test(`seed ${replayed} breaks no promise`, async () => {
    const run = await simulate(Number(replayed), { trace: true });

    console.log(run.trace.join('\n'));
    expect(run.violations).toEqual([]);
  });
}
