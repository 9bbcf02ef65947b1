import type { Defines } from './spin.js';

/** A rule that the model leaves out with `-DBUG=n`, the faults that bring it to light, and what breaks then. */
export interface ModelBug {
  readonly bug: number;
  readonly name: string;
  readonly rule: string;
  readonly faults: Defines;
  /** The assertion that breaks, as the model states it; `acceptance cycle`: something never ends. */
  readonly breaks: RegExp;
}

const EXCLUSION = /believers<=1/;
const TRUST_FIRST = /phase\[.+trust/;
const FENCES_RISE = /last>topFence/;
const NOT_TO_THE_DEAD = /live\[/;
const ONE_PLACE = /ended\[|queue\[/;
const NEVER_ENDS = /acceptance cycle/;

export const MODEL_BUGS: readonly ModelBug[] = [
  { bug: 1, name: 'anybody may declare a death', rule: 'R2', faults: { LEAPS: 1 }, breaks: TRUST_FIRST },
  { bug: 2, name: 'trust is longer than the lease', rule: 'R5', faults: { LEAPS: 1, PAUSES: 1 }, breaks: TRUST_FIRST },
  { bug: 3, name: 'a server that lost its data is not noticed', rule: 'R9', faults: { WIPES: 1 }, breaks: EXCLUSION },
  { bug: 4, name: 'a quarantine ends with the first heartbeat', rule: 'R9', faults: { WIPES: 1 }, breaks: EXCLUSION },
  { bug: 5, name: 'a release frees whoever holds the key', rule: '', faults: {}, breaks: EXCLUSION },
  { bug: 6, name: 'a batch that comes again is done again', rule: 'R7', faults: {}, breaks: ONE_PLACE },
  { bug: 7, name: 'a message is adopted while its epoch lives', rule: 'R1', faults: { PAUSES: 1 }, breaks: EXCLUSION },
  { bug: 8, name: 'the tickets of the dead are granted', rule: 'R1', faults: { PAUSES: 1 }, breaks: NOT_TO_THE_DEAD },
  {
    bug: 9,
    name: 'what a replaced replica holds is granted at once',
    rule: 'R4',
    faults: { TWIN: 1 },
    breaks: EXCLUSION,
  },
  {
    bug: 10,
    name: 'heartbeats do not tell of grants whose push was lost',
    rule: 'R11',
    faults: { ALL_END: 1 },
    breaks: NEVER_ENDS,
  },
  { bug: 11, name: 'the dead are never buried', rule: 'R1', faults: { ALL_END: 1, CRASHES: 1 }, breaks: NEVER_ENDS },
  { bug: 12, name: 'what the dead ask is answered', rule: 'R3', faults: { PAUSES: 1 }, breaks: EXCLUSION },
  {
    bug: 13,
    name: 'trust is counted from the answer',
    rule: 'R5',
    faults: { PAUSES: 1, SLOW: 1 },
    breaks: TRUST_FIRST,
  },
  { bug: 14, name: 'fences are a plain counter', rule: 'R8', faults: { WIPES: 1 }, breaks: FENCES_RISE },
  {
    bug: 15,
    name: 'a held-up heartbeat is told of a message that a later batch brought',
    rule: 'R7',
    faults: { PAUSES: 1, SLOW: 1 },
    breaks: EXCLUSION,
  },
];
