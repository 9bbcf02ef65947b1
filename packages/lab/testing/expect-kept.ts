// For the tests of the backends: each is tried with some seeds at once, and with the planted fault.
import { describe, expect, test } from 'vitest';
import type { Backend } from '../src/backends/backend.js';
import { figuresOf } from '../src/trial/figures.js';
import { summaryOf } from '../src/trial/summary.js';
import { type Trial, tryBackend } from '../src/trial/trial.js';

const FIRST = Number(process.env.BOTMESH_SEED ?? Math.floor(Math.random() * 1e6));
const DURATION_MS = 20_000;
const PLANTED_MS = 60_000;
/** On a machine that does much else, servers and processes take their time. */
const LIMIT_MS = 400_000;

const SIZE = { replicas: 3, keys: 3, leaseMs: 3000 };

/** Two seeds in a row move the clock in one run, and take data away in the other. Default: three of them. */
export function expectKept(backend: Backend, seeds = 3): void {
  const reason = backend.whyNot();
  if (reason !== undefined) console.warn(`${backend.name} is not tried: ${reason}`);
  describe.skipIf(reason !== undefined).concurrent(`the lab on ${backend.name}`, () => {
    test.each([1, 2, 3].slice(0, seeds))(
      'seed %i of three: harmed in every way, replicas keep every promise',
      async (number) => {
        const seed = FIRST + number - 1;
        const trial = await tryBackend({ ...SIZE, backend, seed, durationMs: DURATION_MS, planted: false });

        const { failure, violations } = trial;
        expect({ failure, violations }, textOf(trial)).toEqual({ failure: undefined, violations: [] });
        expect(trial.struck.length, textOf(trial)).toBeGreaterThan(3);
        expect(figuresOf(trial).turns, textOf(trial)).toBeGreaterThan(5);
      },
      LIMIT_MS,
    );

    test(
      'replicas that believe in what they have lost are found out',
      async () => {
        const trial = await tryBackend({ ...SIZE, backend, seed: FIRST, durationMs: PLANTED_MS, planted: true });

        const rules = trial.violations.map(({ rule }) => rule);
        expect(rules, textOf(trial)).toContain('exclusion');
      },
      LIMIT_MS,
    );
  });
}

function textOf(trial: Trial): string {
  return summaryOf(trial, figuresOf(trial)).join('\n');
}
