import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { PLACES } from './overview.js';

const page = readFileSync(`${process.cwd()}/docs/planted-bugs.md`, 'utf8');

test('the page of planted bugs has each of them, with what finds it, and no other: npm run planted-bugs', () => {
  const named = page
    .split(/^## /m)
    .slice(1)
    .map((section) => ({
      title: section.split('\n')[0],
      bugs: [...section.matchAll(/^\| (.+) \| (.+) \| [\d.]* ?\|$/gm)].map(([, name, by]) => ({ name, by })),
    }));

  expect(named).toEqual(PLACES.map(({ bugs, title }) => ({ title, bugs: bugs.map(({ by, name }) => ({ name, by })) })));
});

test('no bug has the name of another one in its place', () => {
  const doubled = PLACES.flatMap(({ bugs }) => {
    const names = bugs.map(({ name }) => name);
    return names.filter((name, at) => names.indexOf(name) !== at);
  });

  expect(doubled).toEqual([]);
});
