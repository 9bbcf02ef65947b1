// The committed matrix, held against the suites and files as they are now.
import { existsSync, readFileSync } from 'node:fs';
import { coordinatorConformance, inboxConformance, memorySubject, PROMISES } from '@botmesh/core/testing';
import { describe, expect, test } from 'vitest';
import { aspectOf, BEGIN, END, gaps, inPage, LACKS, render, shownBy } from './matrix.js';
import { REAL_FAULTS } from './real-faults.js';
import type { Failure, Reported } from './report.js';

const page = readFileSync(`${process.cwd()}/docs/guarantees.md`, 'utf8');
const matrix = page.split(BEGIN)[1]?.split(END)[0] ?? '';
const numbers = Object.keys(PROMISES)
  .map(Number)
  .filter((number) => number > 0);
const subject = memorySubject();
const suite = [...coordinatorConformance(subject), ...inboxConformance(subject)].filter(({ promise }) => promise > 0);

describe('the matrix of docs/guarantees.md, made by npm run guarantees', () => {
  const rows = new Map([...matrix.matchAll(/^\| \[(\d+)\]\(.*$/gm)].map(([row, number]) => [Number(number), row]));
  const letters = new Map(
    [...(/its file: (.*?)\.$/m.exec(matrix)?.[1] ?? '').matchAll(/(\w) (\w+)/g)].map(([, letter, name]) => [
      name!,
      letter!,
    ]),
  );

  test('has each promise, and no other', () => {
    expect([...rows.keys()]).toEqual(numbers);
  });

  test('has each backend that docs/guarantees.md names', () => {
    const named = [...page.matchAll(/^\| (?:\[)?(\w+).*?`(\w+)Coordinator`/gm)].map(([, name]) => name!.toLowerCase());

    expect([...letters.keys()].map((name) => (name === 'postgres' ? 'postgresql' : name))).toEqual(named);
  });

  test('shows each promise on each backend, or says why not', () => {
    const without = numbers.flatMap((number) =>
      [...letters]
        .filter(
          ([backend, letter]) => !rows.get(number)?.includes(`[${letter}](`) && LACKS[backend]?.[number] === undefined,
        )
        .map(([backend]) => `${backend}: ${number}`),
    );

    expect(without).toEqual([]);
  });

  test('lists the tests that the suites have', () => {
    const listed = [...matrix.matchAll(/^- \*\*(\d+)\*\*: (.*)$/gm)].map(([, number, text]) => {
      const aspects = text!.split('; ').map((aspect) => aspect.replace(/ \*\([^*]*\)\*$/, ''));
      return { number: Number(number), aspects };
    });
    const own = numbers.map((number) => {
      const titles = suite.filter(({ promise }) => promise === number).map(({ title }) => title);
      const aspects = titles
        .toSorted((a, b) => a.localeCompare(b))
        .flatMap((title) => aspectOf(title, number).split('; '));
      return { number, aspects };
    });

    expect(listed).toEqual(own);
  });

  test('leads to files that are there', () => {
    const files = [...matrix.matchAll(/\]\(\.\.\/(.*?)\)/g)].map(([, file]) => file!);

    expect(files.length).toBeGreaterThan(100);
    expect(files.filter((file) => !existsSync(file))).toEqual([]);
  });
});

test('runs with real faults are there, under the names by which the matrix has them', () => {
  const gone = REAL_FAULTS.filter(
    ({ file, title, shared = { file, title } }) =>
      !existsSync(file) || !readFileSync(shared.file, 'utf8').includes(`'${shared.title}'`),
  );
  const unlisted = REAL_FAULTS.filter(({ title }) => !matrix.includes(`[${title}]`));

  expect(gone).toEqual([]);
  expect(unlisted).toEqual([]);
});

describe('making the matrix', () => {
  const passed = (promise: number, subject: string, failures: readonly Failure[]): Reported => ({
    file: `packages/${subject}/x.test.ts`,
    title: PROMISES[promise as keyof typeof PROMISES],
    hasPassed: true,
    ms: 1,
    conformance: { promise, subject, failures },
    planted: undefined,
  });

  test('a promise that nothing shows on a backend is a gap', () => {
    const report = numbers.map((number) => passed(number, 'memory', []));

    expect(gaps(shownBy(report), [], report)).toEqual([]);
    expect(gaps(shownBy(report.slice(1)), [], report)).toEqual(['memory shows nothing of promise 1']);
  });

  test('a test that failed shows nothing', () => {
    const report = numbers.map((number) => ({ ...passed(number, 'memory', []), hasPassed: number !== 3 }));

    expect(gaps(shownBy(report), [], report)).toEqual(['memory shows nothing of promise 3']);
  });

  test('a test stands under each failure that it brought about', () => {
    const made = render(shownBy([passed(1, 'redis', ['cut', 'clock'])]), []);

    const [row = ''] = made.split('\n').filter((line) => line.startsWith('| [1]'));
    const cells = row
      .split('|')
      .map((cell) => cell.trim())
      .slice(2, -1);
    expect(cells.map((cell) => cell !== '')).toEqual([false, false, false, true, false, false, true, false, false]);
  });

  test('the rest of the page stays as it is', () => {
    expect(inPage(`a\n${BEGIN}\nold\n${END}\nb`, `${BEGIN}\nnew\n${END}`)).toBe(`a\n${BEGIN}\nnew\n${END}\nb`);
    expect(() => inPage('no place', '')).toThrow('no place for the matrix');
  });
});
