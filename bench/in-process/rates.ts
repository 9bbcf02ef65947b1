import type { Violations } from '../lib/Checker.js';
import { contenders } from './contenders.js';
import type { Effort } from './effort.js';
import { Course, type Load, loads, type Run } from './loads.js';

/** All rounds of one contender under one load. */
export interface Rates extends Violations {
  readonly load: string;
  readonly contender: string;
  readonly runs: readonly Run[];
}

/** Measures every contender under every load, all in turn within a round. */
export async function rates(effort: Effort): Promise<Rates[]> {
  const results: Rates[] = [];
  for (const load of loads) results.push(...(await ratesOf(load, effort)));
  return results;
}

async function ratesOf(load: Load, { rounds, warmUps, messages, secondsPerLoad }: Effort): Promise<Rates[]> {
  const courses = await Promise.all(contenders.map((contender) => Course.open(contender, load)));
  const runs: Run[][] = contenders.map(() => []);
  const untilMs = performance.now() + secondsPerLoad * 1000;
  for (let round = -warmUps; round < rounds; round++) {
    if (performance.now() > untilMs && round >= 2) break;
    for (let turn = 0; turn < courses.length; turn++) {
      // Each round begins with another one: no place in the row is always somebody's.
      const at = (turn + round + warmUps) % courses.length;
      // No collection is forced between the runs: it would shrink the young generation, which a bot's process never sees.
      const result = await courses[at]!.run(messages);
      if (round >= 0) runs[at]!.push(result);
    }
  }
  const violations = await Promise.all(courses.map((course) => course.close()));
  return contenders.map(({ name }, at) => ({ load: load.name, contender: name, runs: runs[at]!, ...violations[at]! }));
}
