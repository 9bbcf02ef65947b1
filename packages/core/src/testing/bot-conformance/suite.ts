import { accounts } from './accounts.js';
import { type BotLab, type BotSubject, onBots } from './BotLab.js';
import { beyondChats } from './beyond-chats.js';
import { calls } from './calls.js';
import { cases } from './cases.js';
import { draining } from './draining.js';
import { forgetting } from './forgetting.js';
import { outages } from './outages.js';
import { overlap } from './overlap.js';
import { parking } from './parking.js';
import { rollouts } from './rollouts.js';
import { schedules } from './schedules.js';
import { sending } from './sending.js';
import { stateOutages } from './state-outages.js';

/** One fact of a bot, for any test runner: call `run`. */
export interface BotTest {
  readonly title: string;
  /** Rejects when the fact does not hold. */
  readonly run: () => Promise<void>;
  /** Why it cannot be run on this subject. */
  readonly skip?: string;
}

const FACTS: Record<string, (lab: BotLab) => Promise<void>> = {
  ...schedules,
  ...beyondChats,
  ...draining,
  ...overlap,
  ...calls,
  ...parking,
  ...sending,
  ...outages,
  ...stateOutages,
  ...rollouts,
  ...cases,
  ...accounts,
};

/** What a Bot does on any backend, beside what its coordinator promises: call `run` of each, unless `skip` tells why not. */
export function botConformance(subject: BotSubject): BotTest[] {
  const { faults = [] } = subject;
  const tests: BotTest[] = Object.entries(FACTS).map(([title, body]) => ({ title, run: () => onBots(subject, body) }));
  for (const [title, { body, needs }] of Object.entries(forgetting)) {
    const missing = needs.filter((fault) => !faults.includes(fault));
    const skip = missing.length === 0 ? {} : { skip: `its server cannot be made to ${missing.join(', ')} here` };
    tests.push({ title, run: () => onBots(subject, body), ...skip });
  }
  return tests;
}
