import type { Mutation } from './table.js';

/** The page for docs/: which rule, switched off, turns which promise red. */
export function render(mutations: readonly Mutation[]): string {
  const rows = mutations.map(({ name, rule, promises, facts = [], simulation }) => {
    const links = [...promises.map((promise) => (promise === 0 ? 'odd input' : `${promise}`)), ...facts].join(', ');
    return `| ${name} | ${rule} | ${links} | ${simulation ? 'yes' : ''} |`;
  });
  return `${HEAD}\n${rows.join('\n')}\n`;
}

const HEAD = `# Mutation controls

A suite that stays green without a rule does not test it. So each rule is switched off in a copy of the built code, one at
a time, and CI demands that the tests of the promises named here by number, or of the facts named by their titles, turn
red, and where it says so that random schedules find it as well. Made from [tests/mutations/table.ts](../tests/mutations/table.ts).

| switched off | rule | what turns red | found by the simulation |
|---|---|---|---|`;
