import { expect, test } from 'vitest';
import { storeConformance } from './store-conformance.js';
import { memoryStoreLab } from './store-lab.js';

const can = ['moveClock', 'restart', 'wipe', 'snapshot'] as const;

for (const { title, run } of storeConformance({ name: 'memory', open: memoryStoreLab, can })) test(title, run);

test('a fact that needs what the lab cannot do is skipped with the reason', () => {
  const tests = storeConformance({ name: 'plain', open: memoryStoreLab });
  const skipped = tests.filter(({ skip }) => skip !== undefined);

  expect(skipped.length).toBeGreaterThan(10);
  expect(skipped[0]?.skip).toContain('plain cannot: moveClock');
  expect(tests.length - skipped.length).toBeGreaterThan(20);
});

test('a lacking fact is skipped with its reason', () => {
  const lacks = { 'every new join gives a greater epoch': 'the clock stands still' };
  const found = storeConformance({ name: 'memory', open: memoryStoreLab, can, lacks }).filter(
    ({ skip }) => skip !== undefined,
  );

  expect(found.map(({ title, skip }) => [title, skip])).toEqual(Object.entries(lacks));
});
