import { describe, test } from 'vitest';
import type { ConformanceTest } from '../testing/conformance.js';
import { coordinatorConformance } from '../testing/coordinator-conformance.js';
import { inboxConformance } from '../testing/inbox-conformance.js';
import { mailroomConformance } from '../testing/mailroom-conformance.js';
import { memorySubject } from '../testing/memory-subject.js';

function declare(tests: readonly ConformanceTest[], options: { concurrent?: boolean; timeout?: number } = {}): void {
  for (const { title, run, skip } of tests) test(title, { skip: skip !== undefined, ...options }, run);
}

/** They keep the process busy with thousands of keys: what runs at their side in real time would come late. */
const isHeavy = ({ promise }: ConformanceTest): boolean => promise === 24 || promise === 25;

describe('memory, in virtual time', () => {
  const subject = memorySubject();
  declare([...coordinatorConformance(subject), ...inboxConformance(subject), ...mailroomConformance(subject)]);
});

describe('memory, in real time', () => {
  const subject = memorySubject({ realTime: true, leaseMs: 4_000 });
  const suite = [...coordinatorConformance(subject), ...inboxConformance(subject), ...mailroomConformance(subject)];

  // They sleep for most of their time, for many leases: all side by side.
  const timeout = 180_000;
  declare(suite.filter(isHeavy), { timeout });
  declare(
    suite.filter((each) => !isHeavy(each)),
    { concurrent: true, timeout },
  );
});
