import { PROMISES } from '@botmesh/core/testing';
import type { RealFault } from './real-faults.js';
import type { Failure, Reported } from './report.js';

export const BEGIN = '<!-- matrix: made by `npm run guarantees` from what ran -->';
export const END = '<!-- end of the matrix -->';

/** In the order of their letters. Stores of examples pass the suites as well, and are no backends. */
const BACKENDS = ['memory', 'sqlite', 'redis', 'postgres', 'nats'];

/** Nothing was done to the mesh; then what was. */
const COLUMNS: readonly (readonly [Failure | 'none', string])[] = [
  ['none', 'no failure'],
  ['killed', 'replica killed'],
  ['frozen', 'replica frozen'],
  ['cut', 'replica cut off'],
  ['restart', 'server restarts'],
  ['data', 'server’s data lost or put back'],
  ['clock', 'clock steps'],
  ['requests', 'requests lost, doubled, late'],
  ['pushes', 'pushes lost'],
];

/** A promise that a backend cannot keep, and why. None. */
export const LACKS: Readonly<Record<string, Readonly<Record<number, string>>>> = {};

/** A test of a promise that passed on a backend. */
export interface Shown {
  readonly backend: string;
  readonly promise: number;
  readonly title: string;
  readonly file: string;
  readonly failures: readonly Failure[];
}

export function shownBy(report: readonly Reported[]): Shown[] {
  return report.flatMap(({ conformance, file, hasPassed, title }) => {
    if (conformance === undefined || !hasPassed || conformance.promise === 0) return [];
    const { failures, promise, subject } = conformance;
    const backend = /^\w+/.exec(subject)?.[0] ?? subject;
    return BACKENDS.includes(backend) ? [{ backend, promise, title, file, failures }] : [];
  });
}

/** What the matrix would hide: promises that nothing shows on a backend, and runs with real faults that did not pass. */
export function gaps(shown: readonly Shown[], reals: readonly RealFault[], report: readonly Reported[]): string[] {
  const missing = backendsOf(shown).flatMap((backend) =>
    promises()
      .filter((promise) => LACKS[backend]?.[promise] === undefined)
      .filter((promise) => !shown.some((each) => each.backend === backend && each.promise === promise))
      .map((promise) => `${backend} shows nothing of promise ${promise}`),
  );
  const unseen = reals
    .filter(({ file, title }) => !report.some((each) => each.file === file && each.title === title && each.hasPassed))
    .map(({ file, title }) => `${file} did not pass: ${title}`);
  return [...missing, ...unseen];
}

export function backendsOf(shown: readonly Shown[]): string[] {
  const found = [...new Set(shown.map(({ backend }) => backend))];
  return found.toSorted((a, b) => BACKENDS.indexOf(a) - BACKENDS.indexOf(b));
}

function promises(): number[] {
  return Object.keys(PROMISES)
    .map(Number)
    .filter((promise) => promise > 0);
}

export function render(shown: readonly Shown[], reals: readonly RealFault[]): string {
  const backends = backendsOf(shown);
  const heads = COLUMNS.map(([, head]) => head);
  const rows = promises().map((promise) => {
    const cells = COLUMNS.map(([failure]) => cell(shown, backends, promise, failure));
    return `| [${promise}](#${anchorOf(promise)}) | ${cells.join(' | ')} |`;
  });
  return [
    BEGIN,
    '',
    `Each letter is a backend on which a test of the promise passed while that was done, and leads to its file: ${legend(backends)}.`,
    'Titles are in the list below. An empty cell says that no test of that promise does so, not that it does not hold.',
    '',
    `| | ${heads.join(' | ')} |`,
    `|---|${'---|'.repeat(heads.length)}`,
    ...rows,
    ...lacking(),
    '',
    '**The tests**',
    '',
    ...promises().map((promise) => `- **${promise}**: ${aspects(shown, promise).join('; ')}`),
    '',
    '**With real faults**',
    '',
    'Whole replicas in processes of their own, on real servers and files.',
    '',
    '| failure | backend | run | promises |',
    '|---|---|---|---|',
    ...reals.map(realRow),
    '',
    END,
  ].join('\n');
}

function legend(backends: readonly string[]): string {
  return backends.map((backend) => `${letterOf(backend)} ${backend}`).join(', ');
}

const letterOf = (backend: string): string => backend.slice(0, 1).toUpperCase();

function cell(
  shown: readonly Shown[],
  backends: readonly string[],
  promise: number,
  failure: Failure | 'none',
): string {
  const marks = backends.map((backend) => {
    const tests = shown.filter(
      (each) => each.backend === backend && each.promise === promise && isUnder(each, failure),
    );
    const file = fileOf(tests);
    return file === undefined ? '' : `[${letterOf(backend)}](../${file})`;
  });
  return marks.filter((mark) => mark !== '').join(' ');
}

function isUnder({ failures }: Shown, failure: Failure | 'none'): boolean {
  return failure === 'none' ? failures.length === 0 : failures.includes(failure);
}

/** The file with most of these tests. */
function fileOf(tests: readonly Shown[]): string | undefined {
  const counts = new Map<string, number>();
  for (const { file } of tests) counts.set(file, (counts.get(file) ?? 0) + 1);
  const byCount = [...counts].toSorted(([a, m], [b, n]) => n - m || a.localeCompare(b));
  return byCount[0]?.[0];
}

function aspects(shown: readonly Shown[], promise: number): string[] {
  const kinds = new Map<string, Set<Failure>>();
  for (const { failures, title } of shown.filter((each) => each.promise === promise)) {
    const known = kinds.get(title) ?? new Set();
    for (const failure of failures) known.add(failure);
    kinds.set(title, known);
  }
  return [...kinds]
    .toSorted(([a], [b]) => a.localeCompare(b))
    .map(([title, failures]) => {
      const aspect = aspectOf(title, promise);
      const under = COLUMNS.filter(([failure]) => failures.has(failure as Failure)).map(([, head]) => head);
      return under.length === 0 ? aspect : `${aspect} *(${under.join(', ')})*`;
    });
}

/** What a title adds to the sentence of its promise. */
export function aspectOf(title: string, promise: number): string {
  const sentence = PROMISES[promise as keyof typeof PROMISES];
  return title === sentence ? 'as it stands' : title.slice(sentence.length + ' — '.length);
}

function lacking(): string[] {
  const reasons = Object.entries(LACKS).flatMap(([backend, lacks]) =>
    Object.entries(lacks).map(([promise, why]) => `- ${backend} does not keep ${promise}: ${why}`),
  );
  return reasons.length === 0 ? [] : ['', ...reasons];
}

function realRow({ backend, failures, file, promises: shows, title }: RealFault): string {
  const heads = COLUMNS.filter(([failure]) => failures.includes(failure as Failure)).map(([, head]) => head);
  return `| ${heads.join(', ')} | ${backend} | [${title}](../${file}) | ${shows.join(', ')} |`;
}

/** As GitHub makes it of the promise's heading. */
function anchorOf(promise: number): string {
  const heading = `${promise}. ${PROMISES[promise as keyof typeof PROMISES]}`;
  return heading
    .toLowerCase()
    .replace(/[^\p{L}\p{N}\s_-]/gu, '')
    .replace(/ /g, '-');
}

/** `page` with the matrix in its place. */
export function inPage(page: string, matrix: string): string {
  const [before, rest] = page.split(BEGIN);
  const [, after] = rest?.split(END) ?? [];
  if (before === undefined || after === undefined) throw new Error(`no place for the matrix: ${BEGIN}`);
  return `${before}${matrix}${after}`;
}
