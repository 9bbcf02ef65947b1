import type { ConformanceSubject, ConformanceTest } from './conformance.js';
import { clockSteps } from './suite/clock-steps.js';
import { configuration } from './suite/configuration.js';
import { cost } from './suite/cost.js';
import { death } from './suite/death.js';
import { suiteFor } from './suite/define.js';
import { exclusion } from './suite/exclusion.js';
import { input } from './suite/input.js';
import { leadership } from './suite/leadership.js';
import { lifecycle } from './suite/lifecycle.js';
import { network } from './suite/network.js';
import { order } from './suite/order.js';
import { outage, replacement } from './suite/outage.js';
import { pause } from './suite/pause.js';
import { storeChanges } from './suite/store-changes.js';

const BY_PROMISE = [
  ...order,
  ...exclusion,
  ...death,
  ...pause,
  ...network,
  ...outage,
  ...replacement,
  ...leadership,
  ...cost,
  ...storeChanges,
  ...clockSteps,
  ...configuration,
].sort((a, b) => a.promise - b.promise);

/**
 * The promises of a Coordinator (1 to 19 and 24 to 29), each by its sentence, as tests for any runner. Passing them says
 * that the backend kept them in these schedules; simulation and real faults say more.
 */
export function coordinatorConformance(subject: ConformanceSubject): ConformanceTest[] {
  return suiteFor(subject, [...BY_PROMISE, ...input, ...lifecycle]);
}
