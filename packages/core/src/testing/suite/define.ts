import type { ConformanceSubject, ConformanceTest, ServerFault } from '../conformance.js';
import { PROMISES } from '../promises.js';
import { Lab } from './Lab.js';
import { type Failure, tellRan, watched } from './ran.js';

/** A test as written down: a suite makes a ConformanceTest of it for one subject. */
export interface Definition {
  readonly promise: number;
  readonly title: string;
  readonly needs: readonly ServerFault[];
  readonly shards: number | undefined;
  readonly body: (lab: Lab) => Promise<void>;
}

export interface Extras {
  /** Server faults without which it cannot be run. */
  readonly needs?: readonly ServerFault[];
  readonly shards?: number;
}

/** A test of a promise: its sentence is the title, with the aspect if there are several tests of it. */
export function promised(
  promise: keyof typeof PROMISES,
  aspect: string | undefined,
  body: (lab: Lab) => Promise<void>,
  { needs = [], shards }: Extras = {},
): Definition {
  const sentence = PROMISES[promise];
  return { promise, title: aspect === undefined ? sentence : `${sentence} — ${aspect}`, needs, shards, body };
}

/** A test of what is no promise of its own: odd input, calls out of order, what is beyond the contract. */
export function fact(
  title: string,
  body: (lab: Lab) => Promise<void>,
  { needs = [], shards }: Extras = {},
): Definition {
  return { promise: 0, title, needs, shards, body };
}

export function suiteFor(subject: ConformanceSubject, definitions: readonly Definition[]): ConformanceTest[] {
  return definitions.map((definition) => {
    const { promise, title, needs } = definition;
    const missing = needs.filter((fault) => !(subject.faults ?? []).includes(fault));
    const skip =
      subject.lacks?.[promise] ??
      (missing.length === 0 ? undefined : `${subject.name} cannot be made to ${missing.join(', ')} its server`);
    return { title, promise, run: () => runOn(subject, definition), ...(skip === undefined ? {} : { skip }) };
  });
}

async function runOn(subject: ConformanceSubject, { body, promise, shards, title }: Definition): Promise<void> {
  const failures = new Set<Failure>();
  const mesh = await subject.open(shards === undefined ? {} : { shards });
  let hasFailed = true;
  try {
    await mesh.run(() => body(new Lab(watched(mesh, failures))));
    hasFailed = false;
  } finally {
    tellRan({ title, promise, subject: subject.name, failures: [...failures] });
    // Trouble with the end says nothing new about a test that failed already.
    await mesh
      .run(() => mesh.close())
      .catch((error: unknown) => {
        if (!hasFailed) throw error;
      });
  }
}
