import type { ConformanceSubject, ConformanceTest } from './conformance.js';
import { suiteFor } from './suite/define.js';
import { mailroom } from './suite/mailroom.js';

/** What a Mailroom must do, as tests for any runner. They carry no number of a promise: the contract does not ask for it. */
export function mailroomConformance(subject: ConformanceSubject): ConformanceTest[] {
  return suiteFor(subject, mailroom);
}
