// Every behaviour of a few replicas over the shipped transitions, within the bounds that each test names.
import { type Moment, transitions } from '@botmesh/core/spi';
import { describe, expect, test } from 'vitest';
import { type Bounds, MeshModel, type ModelOptions } from './mesh-model.js';
import type { MeshState } from './mesh-state.js';
import { search, type Verdict } from './search.js';
import { keyOf } from './state-key.js';

const NOTHING: Bounds = {
  ticks: 9,
  replicas: 2,
  keys: 1,
  reserves: 1,
  crashes: 0,
  pauses: 0,
  starts: 0,
  losses: 0,
  serverChanges: [],
  changes: 0,
  clockSteps: [],
  steps: 0,
};

const LIMIT = 400_000;
/** One state in so many is followed until everything has come to its end. */
const FOLLOWED = 50;

function explore(bounds: Partial<Bounds>, changes: Omit<ModelOptions, 'bounds'> = {}): Verdict {
  const model = new MeshModel({ bounds: { ...NOTHING, ...bounds }, ...changes });
  let states = 0;
  const wrong = (state: MeshState): string | undefined => {
    states += 1;
    if (state.wrong !== undefined || states % FOLLOWED !== 0) return state.wrong;
    return model.stuck(state);
  };
  return search({ start: model.start(), next: (state) => model.next(state), key: keyOf, wrong }, LIMIT);
}

/** What is searched, to its end: a lease is 6 ticks, trust 4, a quarantine 5. */
const SEARCHED: Record<string, Partial<Bounds>> = {
  'two replicas, two pauses of any length': { pauses: 2 },
  'three replicas, a pause': { replicas: 3, pauses: 1 },
  'three replicas, a crash': { replicas: 3, crashes: 1 },
  'two replicas, two keys, a pause': { keys: 2, pauses: 1 },
  'two replicas, a request or an answer lost or held up': { ticks: 6, losses: 1 },
  'two replicas, one of them started a second time': { starts: 1 },
  'two replicas, a step of the server’s clock, a pause': { ticks: 7, clockSteps: [2, -3, 8], steps: 1, pauses: 1 },
  'two replicas, the server restarted': { serverChanges: ['restart'], changes: 1 },
  'two replicas, all data lost, a pause': { ticks: 7, serverChanges: ['wipe'], changes: 1, pauses: 1 },
  'two replicas, the server set back to an earlier record': { serverChanges: ['rollback'], changes: 1 },
};

describe('no two believe in one key, places and fences rise, and nothing is stuck:', () => {
  for (const [title, bounds] of Object.entries(SEARCHED)) {
    test(title, { timeout: 300_000 }, () => {
      const startedMs = performance.now();

      const verdict = explore(bounds);

      const seconds = ((performance.now() - startedMs) / 1000).toFixed(1);
      console.log(`${title}: ${verdict.states} states, ${verdict.edges} steps, ${seconds} s`);
      expect(verdict.found).toBeUndefined();
      expect(verdict.states).toBeGreaterThan(1000);
    });
  }
});

describe('a planted bug is found:', () => {
  const { join, apply, beat, kill } = transitions;

  const backwards = (moment: Moment): Moment => ({ ...moment, wallMs: 1_000_000_000 - 10 * moment.nowMs });

  const finds = (
    title: string,
    bounds: Partial<Bounds>,
    changes: Omit<ModelOptions, 'bounds'>,
    wrong: string,
  ): void => {
    test(title, { timeout: 300_000 }, () => {
      expect(explore(bounds, changes).found?.wrong).toContain(wrong);
    });
  };

  finds(
    'trust as long as the lease',
    { clockSteps: [2], steps: 1, pauses: 1 },
    { rules: { trustTicks: 6 } },
    'both believe',
  );

  finds('trust from the answer on', { losses: 1 }, { rules: { trustFromSend: false } }, 'both believe');

  finds(
    'no quarantine',
    { serverChanges: ['wipe'], changes: 1, pauses: 1 },
    {
      steps: {
        join: (record, request, moment, pushes) => {
          const answer = join(record, request, moment, pushes);
          record.quarantineMs = 0;
          return answer;
        },
      },
    },
    'both believe',
  );

  finds(
    'anybody may declare a death',
    { clockSteps: [8], steps: 1 },
    {
      steps: {
        beat: (record, request, moment, pushes) => {
          const me = record.live.get(request.epoch);
          if (me !== undefined) Object.assign(me, { beat: moment.nowMs, since: moment.nowMs - 1_000_000 });
          return beat(record, request, moment, pushes);
        },
      },
    },
    'both believe',
  );

  finds(
    'stamps that fall with a clock which runs back',
    { serverChanges: ['wipe'], changes: 1 },
    {
      steps: {
        join: (record, request, moment, pushes) => join(record, { ...request, seen: 0 }, backwards(moment), pushes),
        apply: (record, request, moment, pushes) => apply(record, request, backwards(moment), pushes),
        beat: (record, request, moment, pushes) => beat(record, { ...request, seen: 0 }, backwards(moment), pushes),
      },
    },
    'is granted to',
  );

  finds(
    'what a replaced replica holds is free at once',
    { starts: 1 },
    {
      steps: {
        join: (record, request, moment, pushes) => {
          for (const row of [...record.live.values()]) {
            if (row.replicaId === request.replicaId && row.instance !== request.instance) {
              kill(record, row.epoch, moment, pushes);
            }
          }
          return join(record, request, moment, pushes);
        },
      },
    },
    'both believe',
  );

  finds(
    'heartbeats do not tell of grants',
    {},
    {
      steps: {
        beat: (record, request, moment, pushes) => {
          const answer = beat(record, request, moment, pushes);
          return answer.kind === 'alive' ? { ...answer, news: { ...answer.news, grants: [] } } : answer;
        },
      },
    },
    'quiet ticks',
  );

  finds(
    'the dead live on',
    { crashes: 1 },
    {
      steps: {
        beat: (record, request, moment, pushes) => {
          for (const row of record.live.values()) row.since = moment.nowMs;
          return beat(record, request, moment, pushes);
        },
      },
    },
    'quiet ticks',
  );
});

test('a search that meets its limit says so', () => {
  const model = new MeshModel({ bounds: NOTHING });
  const system = {
    start: model.start(),
    next: (state: MeshState) => model.next(state),
    key: keyOf,
    wrong: () => undefined,
  };

  expect(() => search(system, 100)).toThrow('more than 100 states');
});
