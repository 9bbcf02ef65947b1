import { ConfigError, checkOptionNames, shown } from '../errors.js';

/**
 * What becomes of a message that comes while its chat is busy. Pure: what waits decides, the holder of the turn acts.
 *
 * - `serial`: it waits for its own turn
 * - `collect`: it is handled together with those that wait before and behind it, once the chat was quiet for a while
 * - `interrupt`: it ends the turn that runs, which runs again with both
 * - `latest`: one that waits ends without a run as soon as a newer one waits too
 * - `reject`: it ends at once
 */
export type OverlapMode = 'serial' | 'collect' | 'interrupt' | 'latest' | 'reject';

export interface CollectOptions {
  mode: 'collect';
  /** How long nothing new may have come before the messages are handled, in milliseconds. Default 1,000. */
  quietMs?: number;
  /** How long a message waits for others at most, from the grant of its turn on. Default 10,000. */
  maxWaitMs?: number;
}

export type Overlap = OverlapMode | CollectOptions;

/** By the kind of a message, as its provider names it. */
export interface OverlapByKind {
  /** For kinds that are not named. Default `serial`. */
  default?: Overlap;
  kinds: Readonly<Record<string, Overlap>>;
}

export interface Rule {
  readonly mode: OverlapMode;
  readonly quietMs: number;
  readonly maxWaitMs: number;
}

/** How the messages of a Bot overlap. */
export interface Rules {
  readonly fallback: Rule;
  readonly kinds: ReadonlyMap<string, Rule>;
  /** Whether every message waits for its own turn: nothing needs to be looked at. */
  readonly areSerial: boolean;
  /** Whether some kind interrupts. */
  readonly interrupt: boolean;
}

/** What to do with the messages right behind a granted one. The numbers count from the first behind it. */
export type Plan =
  /** Handle it together with the next `more`. */
  | { readonly do: 'run'; readonly more: number }
  /** End it and the `more` behind it without a run, for the one behind those. */
  | { readonly do: 'yield'; readonly more: number };

const QUIET_MS = 1_000;
const MAX_WAIT_MS = 10_000;
const LONGEST_WAIT_MS = 3_600_000;

const MODES: Record<OverlapMode, true> = { serial: true, collect: true, interrupt: true, latest: true, reject: true };
const SERIAL: Rule = { mode: 'serial', quietMs: 0, maxWaitMs: 0 };

/** @throws ConfigError naming what was found and what is expected */
export function settleOverlap(option: Overlap | OverlapByKind | undefined): Rules {
  if (option === undefined) return makeRules(SERIAL, new Map());
  if (typeof option !== 'object' || option === null || 'mode' in option)
    return makeRules(toRule(option, 'overlap'), new Map());
  checkOptionNames('overlap', option, { default: true, kinds: true });
  const { default: fallback = 'serial', kinds } = option;
  if (typeof kinds !== 'object' || kinds === null) {
    throw new ConfigError('overlap: kinds is missing. Pass a mode, or { default, kinds: { edit: … } }.');
  }
  const entries = Object.entries(kinds).map(([kind, each]) => [kind, toRule(each, `overlap.kinds.${kind}`)] as const);
  return makeRules(toRule(fallback, 'overlap.default'), new Map(entries));
}

function makeRules(fallback: Rule, kinds: ReadonlyMap<string, Rule>): Rules {
  const all = [fallback, ...kinds.values()];
  return {
    fallback,
    kinds,
    areSerial: all.every(({ mode }) => mode === 'serial'),
    interrupt: all.some(({ mode }) => mode === 'interrupt'),
  };
}

function toRule(overlap: Overlap, where: string): Rule {
  const options = typeof overlap === 'string' ? { mode: overlap } : overlap;
  const mode: unknown = options?.mode;
  if (typeof mode !== 'string' || !Object.hasOwn(MODES, mode)) {
    throw new ConfigError(`${where}: expected one of ${Object.keys(MODES).join(', ')}, found ${modeShown(mode)}.`);
  }
  if (mode !== 'collect') {
    checkOptionNames(where, options, { mode: true });
    return { ...SERIAL, mode: mode as OverlapMode };
  }
  checkOptionNames(where, options, { mode: true, quietMs: true, maxWaitMs: true });
  const { quietMs = QUIET_MS, maxWaitMs = MAX_WAIT_MS } = options as CollectOptions;
  for (const [name, value] of Object.entries({ quietMs, maxWaitMs })) {
    if (typeof value === 'number' && value >= 0 && value <= LONGEST_WAIT_MS) continue;
    throw new ConfigError(`${where}: ${name} is ${shown(value)}. Give milliseconds from 0 to ${LONGEST_WAIT_MS}.`);
  }
  return { mode, quietMs, maxWaitMs };
}

function modeShown(mode: unknown): string {
  return typeof mode === 'string' ? `'${mode}'` : typeof mode;
}

/** A job of the bot's own waits for its turn: nobody who writes may take its place. */
export function ruleOf(rules: Rules, { kind, job }: { kind?: string | undefined; job?: unknown }): Rule {
  if (job !== undefined) return SERIAL;
  return (kind === undefined ? undefined : rules.kinds.get(kind)) ?? rules.fallback;
}

/** What to do with a message of `mode` whose turn has come, and with those `behind` it, in their order. */
export function plan(mode: OverlapMode, behind: readonly OverlapMode[]): Plan {
  if (mode === 'latest') {
    const newer = count(behind, 'latest', 0);
    if (newer > 0) return { do: 'yield', more: newer - 1 };
  }
  const collected = mode === 'collect' ? count(behind, 'collect', 0) : 0;
  return { do: 'run', more: collected + count(behind, 'interrupt', collected) };
}

/** How many of those behind a turn that handles the first `taken` of them interrupt it. */
export function interrupting(behind: readonly OverlapMode[], taken: number): number {
  return count(behind, 'interrupt', taken);
}

/** Whether no message can be collected any more: one that is not collected waits behind the others. */
export function isClosed(behind: readonly OverlapMode[]): boolean {
  return count(behind, 'collect', 0) < behind.length;
}

/** How long to wait before looking again; 0 to go on. `newestMs`: when the last look found a new one, or the grant. */
export function collectWaitMs(rule: Rule, grantedMs: number, newestMs: number, nowMs: number): number {
  return Math.max(0, Math.min(newestMs + rule.quietMs, grantedMs + rule.maxWaitMs) - nowMs);
}

function count(modes: readonly OverlapMode[], mode: OverlapMode, from: number): number {
  let at = from;
  while (modes[at] === mode) at++;
  return at - from;
}
