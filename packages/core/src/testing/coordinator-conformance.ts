import type { ConformanceSubject, ConformanceTest } from './conformance.js';
import { cost } from './suite/cost.js';
import { death } from './suite/death.js';
import { suiteFor } from './suite/define.js';
import { input } from './suite/input.js';
import { leadership } from './suite/leadership.js';
import { order } from './suite/order.js';
import { outage, replacement } from './suite/outage.js';
import { pause } from './suite/pause.js';
import { clockSteps, configuration, storeChanges } from './suite/server.js';

/**
 * The promises of a Coordinator (1 to 19 and 24 to 29), each by its sentence, as tests for any runner. Passing them says
 * that the backend kept them in these schedules; simulation and real faults say more.
 */
export function coordinatorConformance(subject: ConformanceSubject): ConformanceTest[] {
  return suiteFor(subject, [
    ...order,
    ...death,
    ...pause,
    ...outage,
    ...replacement,
    ...leadership,
    ...cost,
    ...storeChanges,
    ...clockSteps,
    ...configuration,
    ...input,
  ]);
}
