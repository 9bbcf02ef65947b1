// The table of cases, held against the tests that it names: each stands where the table says, under the case's id.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { PROMISES } from '@botmesh/core/testing';
import { describe, expect, test } from 'vitest';

const root = fileURLToPath(new URL('..', import.meta.url));
const read = (path: string): string => readFileSync(join(root, path), 'utf8');

interface Named {
  readonly file: string;
  readonly title: string;
}

interface Case {
  readonly id: string;
  readonly tests: readonly Named[];
  readonly on: string;
}

/** How far above its test an id may stand, in lines. */
const REACH = 4;
const ROW = /^\| (C-\d+[a-z]?) \| .+? \| (.+) \| ([^|]+) \|$/gm;

const cases: readonly Case[] = [...read('docs/cases.md').matchAll(ROW)].map(([, id = '', cell = '', on = '']) => {
  const tests = [...cell.matchAll(/\]\(\.\.\/([^)]+)\): (.+?)(?=<br>|$)/g)].map(([, file = '', title = '']) => {
    return { file, title: title.replace(/^“(.*)”$/, '$1').trim() };
  });
  return { id, tests, on };
});

/** Where in a file a test is declared: by its title, or, for one that bears the sentence of a promise, by its number. */
function declares(line: string, title: string): boolean {
  const [, number] = /^promise (\d+)$/.exec(title) ?? [];
  if (number === undefined) return line.includes(title);
  return number in PROMISES && line.includes(`promised(${number},`);
}

/** Why this is not the test of that case, or undefined. */
function astray(id: string, { file, title }: Named): string | undefined {
  const lines = read(file).split('\n');
  const places = lines.flatMap((line, at) => (declares(line, title) ? [at] : []));
  if (places.length === 0) return `${id}: ${file} has no test “${title}”`;
  const isMarked = places.some((at) =>
    lines.slice(Math.max(0, at - REACH), at).some((line) => /^\s*\/\/ /.test(line) && idsIn(line).includes(id)),
  );
  return isMarked ? undefined : `${id}: does not stand in a comment right above “${title}” in ${file}`;
}

function idsIn(text: string): string[] {
  return text.match(/\bC-\d+[a-z]?\b/g) ?? [];
}

function sourcesUnder(folder: string): string[] {
  return readdirSync(join(root, folder), { withFileTypes: true }).flatMap((entry) => {
    if (['node_modules', 'dist'].includes(entry.name)) return [];
    const path = join(folder, entry.name);
    return entry.isDirectory() ? sourcesUnder(path) : /\.(ts|mjs)$/.test(path) ? [path] : [];
  });
}

describe('docs/cases.md', () => {
  test('has each case once', () => {
    const ids = cases.map(({ id }) => id);

    expect(ids.length).toBeGreaterThan(50);
    expect(ids).toEqual([...new Set(ids)]);
  });

  test('names tests that exist, each under the id of its case', () => {
    const wrong = cases.flatMap(({ id, tests }) => tests.map((each) => astray(id, each)).filter(Boolean));

    expect(wrong).toEqual([]);
  });

  test('says what a case without a test waits for', () => {
    const silent = cases.filter(({ tests, on }) => tests.length === 0 && !on.startsWith('waits for'));

    expect(silent.map(({ id }) => id)).toEqual([]);
  });

  test('has every case that a test names', () => {
    const files = ['packages', 'tests', 'examples'].flatMap(sourcesUnder);
    const named = files.flatMap((file) => {
      const comments = read(file).match(/^\s*\/\/ .*$/gm) ?? [];
      return comments.flatMap(idsIn).map((id) => ({ file, id }));
    });
    const known = new Set(cases.map(({ id }) => id));

    expect(named.length).toBeGreaterThan(50);
    expect(named.filter(({ id }) => !known.has(id))).toEqual([]);
  });
});
