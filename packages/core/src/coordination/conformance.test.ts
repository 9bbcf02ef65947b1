import { describe, test } from 'vitest';
import type { ConformanceTest } from '../testing/conformance.js';
import { coordinatorConformance } from '../testing/coordinator-conformance.js';
import { inboxConformance } from '../testing/inbox-conformance.js';
import { memorySubject } from '../testing/memory-subject.js';

function declare(tests: readonly ConformanceTest[], options: { concurrent?: boolean } = {}): void {
  for (const { title, run, skip } of tests) {
    test(skip === undefined ? title : `${title} (skipped: ${skip})`, { skip: skip !== undefined, ...options }, run);
  }
}

describe('memory, in virtual time', () => {
  declare([...coordinatorConformance(memorySubject()), ...inboxConformance(memorySubject())]);
});

const realTime = memorySubject({ realTime: true, leaseMs: 600 });

describe('memory, in real time', () => {
  declare([...coordinatorConformance(realTime), ...inboxConformance(realTime)], { concurrent: true });
});
