// The order in which test files start: those that take minutes first, so that none of them is left alone at the end.
import { BaseSequencer } from 'vitest/node';

const LONGEST = [
  'tests/simulation/shard-1',
  'tests/simulation/shard-2',
  'packages/postgres/src/virtual',
  'packages/redis/src/coordinator',
  'packages/redis/src/virtual',
  'packages/core/src/coordination/conformance',
  'tests/mutations/',
  'tests/model/',
  'tests/soak/soak',
  'tests/cases/',
  'packages/lab/src/backends/',
  'tests/promela/',
  'examples/live/src/main',
];

export class LongestFirst extends BaseSequencer {
  async sort(files) {
    const rank = ({ moduleId }) => {
      const at = LONGEST.findIndex((name) => moduleId.includes(`/${name}`));
      return at === -1 ? LONGEST.length : at;
    };
    // Stable: the others keep the order that they come in.
    return (await super.sort(files)).toSorted((a, b) => rank(a) - rank(b));
  }
}
