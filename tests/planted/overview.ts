import { PLANTED as IN_POSTGRES } from '../../packages/postgres/testing/planted.js';
import { PLANTED as IN_REDIS } from '../../packages/redis/testing/planted.js';
import { PLANTED as IN_SQLITE } from '../../packages/sqlite/testing/planted.js';
import type { Reported } from '../guarantees/report.js';
import { MUTATIONS } from '../mutations/table.js';
import { MODEL_BUGS } from '../promela/bugs.js';

/** A bug that is planted in each run of CI. */
export interface PlantedBug {
  readonly name: string;
  /** What must find it. */
  readonly by: string;
  /** The file of its test. */
  readonly file: string;
}

export interface Place {
  readonly title: string;
  readonly bugs: readonly PlantedBug[];
}

const STORES = {
  lists: 'random lists of steps',
  facts: 'the suite of stores',
  state: 'the suite of state stores',
} as const;

export const PLACES: readonly Place[] = [
  {
    title: 'In the engine and the reference store',
    bugs: MUTATIONS.map(({ facts = [], name, promises, simulation }) => {
      const numbers = promises.map((each) => (each === 0 ? 'of odd input' : `${each}`));
      const suites = numbers.length === 0 ? [] : [`promise${numbers.length > 1 ? 's' : ''} ${numbers.join(', ')}`];
      const facing = facts.length === 0 ? [] : ['facts of the suites'];
      const by = [...suites, ...facing, ...(simulation ? ['the simulation'] : [])].join('; ');
      return { name, by, file: 'tests/mutations/mutations.test.ts' };
    }),
  },
  {
    title: 'In the script of Redis',
    bugs: IN_REDIS.map(({ foundBy, name }) => ({
      name,
      by: STORES[foundBy],
      file: 'packages/redis/src/planted.test.ts',
    })),
  },
  {
    title: 'In the functions of PostgreSQL',
    bugs: IN_POSTGRES.map(({ foundBy, name }) => ({
      name,
      by: STORES[foundBy],
      file: 'packages/postgres/src/planted.test.ts',
    })),
  },
  {
    title: 'In the statements of SQLite',
    bugs: IN_SQLITE.map(({ foundBy, name }) => ({
      name,
      by: STORES[foundBy],
      file: 'packages/sqlite/src/planted.test.ts',
    })),
  },
  {
    title: 'In the model',
    bugs: MODEL_BUGS.map(({ faults, name }) => {
      const by = faults.ALL_END === 1 ? 'spin: something never ends' : 'spin: an assertion';
      return { name, by, file: 'tests/promela/promela.test.ts' };
    }),
  },
];

/** How long it took to find the bug, in milliseconds; undefined when the report has no such test that passed. */
export function foundIn(report: readonly Reported[], { file, name }: PlantedBug): number | undefined {
  const tests = report.filter((each) => each.file === file && each.hasPassed);
  const own = tests.find(({ title }) => title === name || title.endsWith(`: ${name}`));
  return own === undefined ? undefined : (own.planted?.ms ?? own.ms);
}

/** `isPartial`: what the report has not is left open. */
export function render(report: readonly Reported[], isPartial = false): string {
  const parts = PLACES.map(({ bugs, title }) => {
    const rows = bugs.map((bug) => {
      const ms = foundIn(report, bug);
      if (ms === undefined && !isPartial)
        throw new Error(`The report does not show that it was found: ${bug.name} (${bug.file})`);
      return `| ${bug.name} | ${bug.by} | ${ms === undefined ? '' : (ms / 1000).toFixed(2)} |`;
    });
    const file = bugs[0]?.file ?? '';
    return `## ${title}\n\n[Test](../${file}).\n\n| planted | found by | seconds |\n|---|---|---|\n${rows.join('\n')}\n`;
  });
  const count = PLACES.reduce((sum, { bugs }) => sum + bugs.length, 0);
  return `${head(count)}\n${parts.join('\n')}`;
}

const head = (count: number): string => `# Planted bugs

A green run of a weak test says nothing. So ${count} bugs are planted, one at a time, in every run of CI, each where the rule stands
that it breaks, and CI demands that each is found by the layer named here. The seconds are those of one run on a small
machine, others beside it: they say how near a bug like it would be noticed, not how fast your machine is. Made by
\`npm run planted-bugs\` from what ran; more on each place: [the engine](mutation-controls.md), [Redis](redis-planted-bugs.md),
[the model](model.md).
`;
