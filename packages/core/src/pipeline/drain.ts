import { BadInputError, shown } from '../errors.js';
import type { Clock } from '../time/clock.js';
import type { Load } from './Load.js';
import { pause } from './pause.js';

const LONGEST_MS = 2 ** 31 - 1;

/**
 * Resolves when what this replica must end itself has ended, or after `drainMs`, or when `hurry` aborts. What waits and is
 * passed on does not count, only running turns; where it would be lost, it counts too.
 */
export async function drain(
  load: Load,
  clock: Clock,
  drainMs: number,
  passesOn: boolean,
  hurry: AbortSignal,
): Promise<void> {
  const over = new AbortController();
  const ended = passesOn ? load.quiet() : load.empty();
  await Promise.race([ended, pause(clock, Math.min(drainMs, LONGEST_MS), over.signal, hurry)]);
  over.abort();
}

export function checkDrainMs(drainMs: unknown): number {
  if (typeof drainMs === 'number' && drainMs >= 0) return drainMs;
  throw new BadInputError(`stop(): drainMs is ${shown(drainMs)}. Give a number of milliseconds from 0 up.`);
}
