import type { MeshConfig, Op, ReleaseHow } from '../coordination/store.js';
import { seededRandom } from './random.js';

/**
 * One step of a differential run. It names tickets by numbers that are resolved when it is made, so that a list of steps
 * stays a list of steps when some are left out.
 */
export type Step =
  | {
      readonly kind: 'join';
      readonly client: number;
      readonly isNewStart: boolean;
      readonly adopts: boolean;
      readonly config: Partial<MeshConfig>;
      readonly seen: number;
    }
  | {
      readonly kind: 'apply';
      readonly client: number;
      readonly batch: 'next' | 'repeat' | 'older' | 'ahead';
      readonly isStranger: boolean;
      readonly isAnswerLost: boolean;
      readonly ops: readonly StepOp[];
    }
  | {
      readonly kind: 'beat';
      readonly client: number;
      readonly adopts: boolean;
      /** It comes a second time, or late. */
      readonly isOld: boolean;
      readonly isOldEra: boolean;
      readonly isAnswerLost: boolean;
      readonly watched: 'none' | 'almost' | 'enough';
      readonly seen: number;
      /** The ticket left out of the view. */
      readonly forgets: number | null;
      readonly lies: readonly { what: 'another' | 'unknown' | 'other-fence' | 'not-granted'; pick: number }[];
    }
  | { readonly kind: 'leave'; readonly client: number }
  | {
      readonly kind: 'waiting';
      readonly client: number;
      /** Behind the head of some key; otherwise behind any ticket. */
      readonly isHead: boolean;
      readonly pick: number;
      readonly limit: number;
    }
  | {
      readonly kind: 'pace';
      readonly name: string;
      readonly costMs: number;
      readonly burstMs: number;
      readonly pauseMs: number;
    }
  | { readonly kind: 'clock'; readonly leases: number }
  | { readonly kind: 'restart' }
  | { readonly kind: 'wipe' }
  | { readonly kind: 'rollback'; readonly isCopy: boolean };

export type StepOp =
  | Exclude<Op, { op: 'release' | 'replay' | 'drop' }>
  | { readonly op: 'replay'; readonly pick: number; readonly maxAttempts: number; readonly dedupeMs: number }
  | { readonly op: 'drop'; readonly pick: number }
  | {
      readonly op: 'release';
      readonly pick: number;
      readonly how: ReleaseHow;
      readonly error: string | null;
      /** Finishes tickets of these clients together with it. */
      readonly also: readonly number[];
      /** Of a ticket that is another client's. */
      readonly isStranger: boolean;
      readonly isOtherKey: boolean;
    };

const KEYS = ['k0', 'k1', 'chat:ß {1}*', ''];
const CLOCK_MOVES = [1 / 12, 1 / 12, 1 / 12, 1 / 6, 1 / 6, 1 / 3, 0.34, 0.7, 1, 1.01, 1.2, 3.5, -0.1, -0.5, -3];

/** The same list for the same seed. */
export function makeSteps(seed: number, count: number): Step[] {
  const random = seededRandom(seed);
  const below = (limit: number): number => Math.floor(random() * limit);
  const oneOf = <T>(list: readonly [T, ...T[]] | readonly T[]): T => list[below(list.length)] as T;
  const chance = (share: number): boolean => random() < share;
  // Server changes and odd configurations make everything else rare: most lists have none.
  const isStormy = chance(0.3);
  // Nor do messages become suspect but where replicas are blocked again and again.
  const isDeadly = chance(0.2);

  const op = (): StepOp => {
    const key = oneOf(KEYS);
    if (isDeadly && chance(0.7)) return deadly(key);
    const kind = below(10);
    if (kind < 3) return { op: 'reserve', key };
    if (kind < 4) return { op: 'try', key };
    if (kind < 6) {
      const id = chance(0.7) ? oneOf(['m1', 'm2', 'm3']) : null;
      const dedupeMs = oneOf([86_400_000, 20_000, 0]);
      return { op: 'accept', key, id, body: `body ${below(100)}`, maxAttempts: oneOf([1, 2, 3, 5]), dedupeMs };
    }
    if (chance(0.2)) return rare(key);
    const how = oneOf(['done', 'return', 'lost', 'pass', 'withdraw'] as const);
    const error = chance(0.2) ? `reason ${below(3)}` : null;
    const also = chance(0.2) ? Array.from({ length: 1 + below(3) }, () => below(50)) : [];
    return { op: 'release', pick: below(50), how, error, also, isStranger: chance(0.1), isOtherKey: chance(0.05) };
  };
  const deadly = (key: string): StepOp => {
    if (chance(0.3)) {
      return { op: 'accept', key, id: null, body: '', maxAttempts: oneOf([2, 5, 1000]), dedupeMs: 0 };
    }
    const how = chance(0.8) ? 'lost' : oneOf(['done', 'return', 'pass'] as const);
    return { op: 'release', pick: below(50), how, error: null, also: [], isStranger: false, isOtherKey: false };
  };
  const rare = (key: string): StepOp => {
    if (chance(0.4)) return { op: 'tell', key, note: `note ${below(100)}` };
    if (chance(0.3)) return { op: 'drop', pick: below(50) };
    return { op: 'replay', pick: below(50), maxAttempts: oneOf([1, 2, 5]), dedupeMs: oneOf([86_400_000, 20_000, 0]) };
  };
  const join = (client: number, isNewStart: boolean): Step => {
    const config = chance(0.95) ? {} : oneOf([{ leaseMs: 6000 }, { shards: 2 }, { format: 2 }]);
    return { kind: 'join', client, isNewStart, adopts: chance(isDeadly ? 0.95 : 0.6), config, seen: seen() };
  };
  const seen = (): number => {
    if (chance(0.9)) return 0;
    return chance(0.5) ? -1 : 50;
  };
  const beat = (): Step => ({
    kind: 'beat',
    client: below(5),
    adopts: chance(isDeadly ? 0.95 : 0.6),
    isOld: chance(0.1),
    isOldEra: chance(0.1),
    isAnswerLost: chance(0.1),
    watched: oneOf(['none', 'almost', 'enough', 'enough'] as const),
    seen: seen(),
    forgets: chance(0.1) ? below(50) : null,
    lies: chance(0.15)
      ? [{ what: oneOf(['another', 'unknown', 'other-fence', 'not-granted'] as const), pick: below(50) }]
      : [],
  });
  const pace = (): Step => ({
    kind: 'pace',
    name: oneOf(['p0', 'p1', 'pace:ß']),
    costMs: oneOf([100, 2000, 2_500_000]),
    burstMs: oneOf([0, 0, 5000]),
    pauseMs: chance(0.2) ? oneOf([3000, 20_000, 4_000_000]) : 0,
  });
  const step = (): Step => {
    const kind = below(100);
    if (kind < 40) {
      const batch = chance(0.8) ? 'next' : oneOf(['repeat', 'repeat', 'older', 'ahead'] as const);
      const ops = Array.from({ length: 1 + below(4) }, op);
      return { kind: 'apply', client: below(5), batch, isStranger: chance(0.03), isAnswerLost: chance(0.1), ops };
    }
    if (kind < 68) return beat();
    if (kind < 76) return join(below(5), chance(0.3));
    if (kind < 79) return { kind: 'leave', client: below(5) };
    if (kind < 81) {
      const limit = oneOf([0, 1, 3, 256, 1000]);
      return { kind: 'waiting', client: below(5), isHead: chance(0.8), pick: below(50), limit };
    }
    if (kind < 83) return pace();
    if (kind < 96 || !isStormy) return { kind: 'clock', leases: oneOf(CLOCK_MOVES) };
    if (kind < 97) return { kind: 'restart' };
    if (kind < 98) return { kind: 'wipe' };
    return { kind: 'rollback', isCopy: chance(0.5) };
  };
  const start = [0, 1, 2, 3].map((client) => join(client, true));
  return [...start, ...Array.from({ length: Math.max(0, count - start.length) }, step)].slice(0, count);
}

export function describeStep(step: Step): string {
  const { kind, ...rest } = step;
  return `${kind} ${JSON.stringify(rest)}`;
}
