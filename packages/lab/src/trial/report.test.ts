import type { HistoryEvent, Violation } from '@botmesh/core/testing';
import { expect, test } from 'vitest';
import { figuresOf } from './figures.js';
import { reportOf } from './report.js';
import { summaryOf } from './summary.js';
import type { Trial } from './trial.js';

const granted = (replica: string, at: number, fence: number, attempt?: number): HistoryEvent => ({
  kind: 'granted',
  replica,
  key: 'k',
  at,
  seq: fence,
  fence,
  ...(attempt === undefined ? {} : { attempt }),
});
const ended = (replica: string, at: number, fence: number): HistoryEvent => ({
  kind: 'ended',
  replica,
  key: 'k',
  at,
  fence,
  why: 'released',
});
const message = (kind: 'accepted' | 'handled', at: number, seq: number): HistoryEvent => {
  const event = { replica: 'r1', key: 'k', at, seq };
  return kind === 'handled' ? { kind, ...event } : { kind, ...event, calledAt: at - 1, call: seq };
};

function trial(more: Partial<Trial> = {}): Trial {
  const events: HistoryEvent[] = [
    message('accepted', 1001, 1),
    granted('r1', 1010, 1),
    { kind: 'gone', at: 1100, replica: 'r1' },
    granted('r2', 4100, 2, 2),
    ended('r2', 4150, 2),
    message('handled', 4150, 1),
    message('handled', 4160, 1),
    granted('r3', 4200, 3),
    ended('r3', 4300, 3),
  ];
  return {
    backend: 'redis',
    seed: 7,
    leaseMs: 2000,
    planted: false,
    startedAt: 1000,
    harmedAt: 1005,
    healedAt: 5000,
    endedAt: 6000,
    events,
    struck: [
      { kind: 'killed', at: 1100, until: 1400, replica: 'r1' },
      { kind: 'server killed', at: 2000, until: 2500 },
    ],
    violations: [],
    ...more,
  };
}

const overlap: Violation = { rule: 'exclusion', key: 'k', at: 4200, text: 'a </script> came before "b".' };

test('figures tell what was handled, how often, when nothing went on, and how soon the next one came', () => {
  const figures = figuresOf(trial());

  expect(figures).toMatchObject({ turns: 3, received: 1, handled: 1, doubled: 1, adopted: 1, takeoversMs: [3000] });
  expect(figures.gaps).toEqual([{ from: 1010, to: 4100 }]);
  expect([...figures.faults]).toEqual([
    ['killed', 1],
    ['server killed', 1],
  ]);
});

test('violations are told apart by what they break', () => {
  const rules = ['exclusion', 'fence', 'turn-order', 'message-lost', 'dedupe'] as const;

  const { violations } = figuresOf(trial({ violations: rules.map((rule) => ({ ...overlap, rule })) }));

  expect(violations).toEqual({ overlaps: 2, order: 1, lost: 1, other: 1 });
});

test('the summary says what struck while nothing went on', () => {
  const run = trial();

  const text = summaryOf(run, figuresOf(run)).join('\n');

  expect(text).toContain('3.1 s at most (killed, server killed)');
  expect(text).toContain('violations: 0 overlaps, 0 of order, 0 lost, 0 other');
});

test('the page holds every turn, fault and violation, and says how to run it again', () => {
  const run = trial({ violations: [overlap] });

  const page = reportOf(run, figuresOf(run), 'npm run lab -- --seed 7');

  expect(page).toContain('redis, seed 7: 1 violation');
  expect(page).toContain('npm run lab -- --seed 7');
  const json = /<script type="application\/json" id="data">(.*?)<\/script>/s.exec(page)?.[1] ?? '';
  expect(JSON.parse(json)).toMatchObject({
    keys: ['k'],
    replicas: ['r1', 'r2', 'r3'],
    bars: [
      [0, 0, 10, 100, 2, 1, 1],
      [0, 1, 3100, 3150, 0, 2, 2],
      [0, 2, 3200, 3300, 0, 3, 1],
    ],
    faults: [{ kind: 'killed', replica: 0 }, { kind: 'server killed' }],
    violations: [{ rule: 'exclusion', key: 0, at: 3200 }],
  });
  expect(page.match(/<\/script>/g)).toHaveLength(2);
});
