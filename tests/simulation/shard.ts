import { expect, test } from 'vitest';
import { missing } from './coverage.js';
import { runSeeds } from './run-seeds.js';

const RUNS = Number(process.env.BOTMESH_SIM_RUNS ?? 10_000);
/** Fewer runs than this need not have seen every fault. */
const ENOUGH = 1000;

/** One of the test files that share the seeds 1 to `BOTMESH_SIM_RUNS` between them, so that they run side by side. */
export function simulationShard(shard: number, shards: number): void {
  if (process.env.BOTMESH_SEED !== undefined) {
    test.skip('a shard of the seeds: not while one seed is replayed', () => {});
    return;
  }
  const each = Math.ceil(RUNS / shards);
  const first = 1 + shard * each;
  const count = Math.max(0, Math.min(each, RUNS - shard * each));
  const title = `${count} random runs break no promise, and see every fault there is`;
  test(title, { timeout: 600_000 }, async () => {
    const report = await runSeeds({ first, count });

    expect(report.failures).toEqual([]);
    if (count >= ENOUGH) expect(missing(report.coverage)).toEqual([]);
    console.log(`${report.runs} runs, ${report.virtualHours.toFixed(0)} virtual hours: ${summary(report.coverage)}`);
  });
}

function summary(coverage: Record<string, number>): string {
  return Object.entries(coverage)
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, times]) => `${name} ${times}`)
    .join(', ');
}
