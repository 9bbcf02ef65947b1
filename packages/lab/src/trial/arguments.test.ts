import { expect, test } from 'vitest';
import { readArguments, UsageError, usage } from './arguments.js';

const names = ['redis', 'sqlite'];

test('only the backend has to be named', () => {
  expect(readArguments(['--backend', 'redis'], names)).toMatchObject({
    backend: 'redis',
    minutes: 1,
    replicas: 4,
    planted: false,
    seed: expect.any(Number),
  });
  expect(readArguments(['--backend', 'all', '--seed', '7', '--minutes', '0.5', '--planted'], names)).toMatchObject({
    backend: 'all',
    seed: 7,
    minutes: 0.5,
    planted: true,
  });
});

test('help is given for the asking, and names every option and backend', () => {
  expect(readArguments(['--help'], names)).toBeUndefined();
  for (const word of ['--backend', '--minutes', '--seed', '--planted', ...names]) expect(usage(names)).toContain(word);
});

test.each([
  [[], /--backend is missing/],
  [['--backend', 'mysql'], /--backend is mysql: expected redis, sqlite or all/],
  [['--backend', 'redis', '--minutes', 'x'], /--minutes is x: expected a number from 0.05/],
  [['--backend', 'redis', '--minutes', ''], /--minutes is : expected a number/],
  [['--backend', 'redis', '--seed', '1.5'], /--seed is 1.5: expected a whole number/],
  [['--backend', 'redis', '--replicas', '1'], /--replicas is 1: expected a whole number from 2/],
  [['--backend', 'redis', '--speed', '1'], /--speed/],
  [['redis'], /redis/],
])('%j is refused, and why is said', (args, message) => {
  const read = () => readArguments(args, names);

  expect(read).toThrow(UsageError);
  expect(read).toThrow(message);
});
