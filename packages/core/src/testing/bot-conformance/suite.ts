import { accounts } from './accounts.js';
import { type BotLab, type BotSubject, onBots } from './BotLab.js';
import { beyondChats } from './beyond-chats.js';
import { calls } from './calls.js';
import { cases } from './cases.js';
import { draining } from './draining.js';
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

/** What a Bot does on any backend, beside what its coordinator promises: call `run` of each. */
export function botConformance(subject: BotSubject): BotTest[] {
  return Object.entries(FACTS).map(([title, body]) => ({ title, run: () => onBots(subject, body) }));
}
