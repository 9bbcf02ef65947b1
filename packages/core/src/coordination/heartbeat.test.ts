import { expect, test } from 'vitest';
import { VirtualClock } from '../testing/VirtualClock.js';
import { Heartbeat } from './Heartbeat.js';
import type { BeatAnswer } from './store.js';
import { timing } from './timing.js';

const ALIVE: BeatAnswer = {
  ...{ kind: 'alive', era: 1, quarantined: false, more: false, lost: [], notes: [] },
  news: { grants: [], adopted: [], parked: [] },
};

/** What is heard of attempts, the first of which fails after `failsMs` and the others are answered after `answersMs`. */
async function failuresOf(failsMs: number, answersMs: number): Promise<string[]> {
  const failures: string[] = [];
  const clock = new VirtualClock();
  let attempts = 0;
  await clock.run(async () => {
    const heartbeat = new Heartbeat({
      clock,
      timing: timing(12_000),
      send: () => {
        attempts += 1;
        const isFirst = attempts === 1;
        return new Promise((resolve, reject) => {
          clock.setTimer(isFirst ? failsMs : answersMs, () => {
            if (isFirst) reject(new Error('all connections are taken'));
            else resolve(ALIVE);
          });
        });
      },
      onAnswer: () => Number.POSITIVE_INFINITY,
      onFailure: ({ message }) => failures.push(message),
      onLate: () => {},
    });
    heartbeat.now();
    await new Promise<void>((resolve) => clock.setTimer(20_000, resolve));
    heartbeat.stop();
  });
  return failures;
}

test('why an attempt failed is told although it was abandoned before', async () => {
  const failures = await failuresOf(1_900, 1_999);
  expect(failures.at(-1)).toBe('all connections are taken');
  expect(failures[0]).toBe('The backend did not answer.');
});

test('why an abandoned attempt failed is no news once another was answered', async () => {
  expect(await failuresOf(1_900, 10)).not.toContain('all connections are taken');
});
