import { addUp, type Coverage } from './coverage.js';
import { type Simulation, simulate } from './simulate.js';
import { stretchTripwires } from './tripwires.js';

export interface SeedRange {
  readonly first: number;
  readonly count: number;
  /** Ends after this many bad runs. Default 1. */
  readonly badRuns?: number;
}

export interface SeedReport {
  readonly runs: number;
  readonly virtualHours: number;
  readonly coverage: Coverage;
  /** A text for each bad run: what was wrong, and the line that replays it. */
  readonly failures: readonly string[];
}

/** Every hundredth seed is run twice, to see that it gives the same run. */
const TWICE = 100;

/** Runs a row of seeds under tripwires and adds up what they saw. */
export async function runSeeds({ first, count, badRuns = 1 }: SeedRange): Promise<SeedReport> {
  const coverage: Coverage = {};
  const failures: string[] = [];
  const rejections: unknown[] = [];
  const onRejection = (reason: unknown): void => {
    rejections.push(reason);
  };
  let virtualMs = 0;
  let runs = 0;
  const takeAway = stretchTripwires();
  process.on('unhandledRejection', onRejection);
  try {
    for (let seed = first; seed < first + count && failures.length < badRuns; seed++) {
      const run = await simulate(seed);
      const violations = [
        ...run.violations,
        ...rejections.splice(0).map((reason) => `unhandled rejection: ${String(reason)}`),
      ];
      if (seed % TWICE === 0) violations.push(...(await differences(run)));
      if (violations.length > 0) failures.push(describe(seed, violations));
      addUp(coverage, run.coverage);
      virtualMs += run.virtualMs;
      runs += 1;
    }
  } finally {
    process.off('unhandledRejection', onRejection);
    takeAway();
  }
  return { runs, virtualHours: virtualMs / 3_600_000, coverage, failures };
}

async function differences(run: Simulation): Promise<string[]> {
  const again = await simulate(run.seed);
  return again.fingerprint() === run.fingerprint() ? [] : ['the same seed gave another run'];
}

function describe(seed: number, violations: readonly string[]): string {
  const shown = violations.slice(0, 5).map((violation) => `  ${violation}`);
  const more = violations.length > shown.length ? [`  and ${violations.length - shown.length} more`] : [];
  return [`seed ${seed}:`, ...shown, ...more, `replay: BOTMESH_SEED=${seed} npx vitest run tests/simulation`].join(
    '\n',
  );
}
