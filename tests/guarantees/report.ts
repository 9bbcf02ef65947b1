import { readFileSync } from 'node:fs';
import { join, relative } from 'node:path';

/** Where `npm test` and `npm run guarantees -- --run` leave what vitest reports. */
export const REPORT = join(process.cwd(), 'node_modules/.cache/botmesh/report.json');

export type Failure = 'killed' | 'frozen' | 'cut' | 'restart' | 'data' | 'clock' | 'requests' | 'pushes';

/** A test as the report has it. */
export interface Reported {
  /** From the root of the repository. */
  readonly file: string;
  readonly title: string;
  readonly hasPassed: boolean;
  readonly ms: number;
  /** Of a conformance suite: which promise, on what, and what was done to it. */
  readonly conformance: Conformance | undefined;
  /** Of a planted bug: what found it, and in what time. */
  readonly planted: { readonly by: string; readonly ms: number } | undefined;
}

export interface Conformance {
  readonly promise: number;
  /** Begins with the name of the backend. */
  readonly subject: string;
  readonly failures: readonly Failure[];
}

interface Json {
  readonly testResults: readonly {
    readonly name: string;
    readonly assertionResults: readonly {
      readonly title: string;
      readonly status: string;
      readonly duration?: number;
      readonly meta?: { readonly conformance?: Conformance; readonly planted?: Reported['planted'] };
    }[];
  }[];
}

export function readReport(path = REPORT): Reported[] {
  const { testResults } = JSON.parse(readFileSync(path, 'utf8')) as Json;
  return testResults.flatMap(({ assertionResults, name }) =>
    assertionResults.map(({ duration = 0, meta = {}, status, title }) => ({
      file: relative(process.cwd(), name),
      title,
      hasPassed: status === 'passed',
      ms: duration,
      conformance: meta.conformance,
      planted: meta.planted,
    })),
  );
}
