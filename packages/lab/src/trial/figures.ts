import type { HistoryEvent, HistoryRule, Violation } from '@botmesh/core/testing';
import type { Trial } from './trial.js';

/** A time in which no turn was granted, by the common clock. */
export interface Gap {
  readonly from: number;
  readonly to: number;
}

/** What a trial comes down to. */
export interface Figures {
  readonly turns: number;
  /** Messages that were taken in, and whose replica lived to tell. */
  readonly received: number;
  /** Of those, the ones that were handled to their end. */
  readonly handled: number;
  /** Handled more than once: what at-least-once allows when the end of a turn was not heard of. */
  readonly doubled: number;
  readonly adopted: number;
  /** Places that were refused, as those of the presumed dead are. */
  readonly refused: number;
  readonly violations: Readonly<Record<'overlaps' | 'order' | 'lost' | 'other', number>>;
  /** How often each kind of fault struck. */
  readonly faults: ReadonlyMap<string, number>;
  /** Longer than half a lease, longest first. */
  readonly gaps: readonly Gap[];
  /** From each kill of a replica that held a key to the next turn of that key, sorted. */
  readonly takeoversMs: readonly number[];
}

const OVERLAPS: readonly HistoryRule[] = ['exclusion', 'lapsed', 'fence', 'stale-write'];
const ORDER: readonly HistoryRule[] = ['call-order', 'turn-order', 'adoption'];
const LOST: readonly HistoryRule[] = ['message-lost', 'ticket-without-end'];

type Of<K extends HistoryEvent['kind']> = Extract<HistoryEvent, { kind: K }>;

export function figuresOf(trial: Trial): Figures {
  const { events } = trial;
  const of = <K extends HistoryEvent['kind']>(kind: K): Of<K>[] =>
    events.filter((event): event is Of<K> => event.kind === kind);
  const grants = of('granted').sort((a, b) => a.at - b.at);
  const handled = countBy(of('handled').map(nameOf));
  const received = of('accepted').map(nameOf);
  return {
    turns: grants.length,
    received: received.length,
    handled: received.filter((name) => handled.has(name)).length,
    doubled: [...handled.values()].filter((times) => times > 1).length,
    adopted: grants.filter(({ attempt = 1 }) => attempt > 1).length,
    refused: of('lost').length,
    violations: sorted(trial.violations),
    faults: countBy(trial.struck.map(({ kind }) => kind)),
    gaps: gapsIn(grants, trial),
    takeoversMs: takeovers(grants, of('ended'), of('gone')),
  };
}

function sorted(violations: readonly Violation[]): Figures['violations'] {
  const among = (rules: readonly HistoryRule[]): number => violations.filter(({ rule }) => rules.includes(rule)).length;
  const known = { overlaps: among(OVERLAPS), order: among(ORDER), lost: among(LOST) };
  return { ...known, other: violations.length - known.overlaps - known.order - known.lost };
}

function countBy(names: readonly string[]): Map<string, number> {
  const counts = new Map<string, number>();
  for (const name of names) counts.set(name, (counts.get(name) ?? 0) + 1);
  return counts;
}

function nameOf({ key, seq }: { readonly key: string; readonly seq: number }): string {
  return `${seq} ${key}`;
}

/** While there was harm: until they are left in peace the replicas have always something to do. */
function gapsIn(grants: readonly Of<'granted'>[], { harmedAt, healedAt, leaseMs }: Trial): Gap[] {
  const during = grants.map(({ at }) => at).filter((at) => harmedAt <= at && at <= healedAt);
  const times = [harmedAt, ...during, healedAt];
  const gaps = times.slice(1).map((to, n) => ({ from: times[n]!, to }));
  return gaps.filter(({ from, to }) => to - from > leaseMs / 2).sort((a, b) => b.to - b.from - (a.to - a.from));
}

function takeovers(
  grants: readonly Of<'granted'>[],
  ends: readonly Of<'ended'>[],
  gone: readonly Of<'gone'>[],
): number[] {
  const ended = new Set(ends.map(({ fence, key }) => `${fence} ${key}`));
  const waits = gone.flatMap(({ at, replica }) => {
    const held = grants.filter((grant) => grant.replica === replica && !ended.has(`${grant.fence} ${grant.key}`));
    return held.flatMap(({ fence, key }) => {
      const next = grants.find((grant) => grant.key === key && grant.fence > fence && grant.at > at);
      return next === undefined ? [] : [next.at - at];
    });
  });
  return waits.sort((a, b) => a - b);
}
