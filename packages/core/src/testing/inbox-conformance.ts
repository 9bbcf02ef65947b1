import type { ConformanceSubject, ConformanceTest } from './conformance.js';
import { suiteFor } from './suite/define.js';
import { handling } from './suite/handling.js';
import { dedupe, parking, places, refusals } from './suite/messages.js';

/** The promises of an Inbox (20 to 23), each by its sentence, as tests for any runner. */
export function inboxConformance(subject: ConformanceSubject): ConformanceTest[] {
  return suiteFor(subject, [...handling, ...places, ...dedupe, ...refusals, ...parking]);
}
