import { expect, test, vi } from 'vitest';
import { VirtualClock } from '../testing/VirtualClock.js';
import { Run } from './Run.js';

const never = (): Promise<never> => new Promise(() => {});
const late = new Error('late');
const limit = (limitMs: number, boundMs: number) => ({ limitMs, boundMs, onLimit: () => late });

test('what gives its result or its error at once gives it as it is', () => {
  const clock = new VirtualClock();
  const [run, other] = [new Run(clock), new Run(clock)];

  expect(run.of(() => 7, limit(10, 10))).toBe(7);
  expect(() =>
    other.of(
      () => {
        throw late;
      },
      limit(10, 10),
    ),
  ).toThrow(late);
  run.end();
  other.end();
  expect(clock.pending).toBe(0);
});

test('one that ends in time gives its result or its error, and leaves no timer once it is over', async () => {
  const clock = new VirtualClock();
  const [run, other] = [new Run(clock), new Run(clock)];

  await expect(run.of(() => Promise.resolve(7), limit(10, 10))).resolves.toBe(7);
  await expect(other.of(() => Promise.reject(late), limit(10, 10))).rejects.toBe(late);
  run.endWithin(5, late);
  run.end();
  other.end();
  run.endWithin(5, late);
  expect(clock.pending).toBe(0);
});

test('its time begins anew with each sign of progress, up to a bound', async () => {
  const clock = new VirtualClock();
  const run = new Run(clock);
  const given = vi.fn();
  void Promise.resolve(run.of(never, limit(10, 25))).catch(given);

  await clock.advance(9);
  run.extend();
  await clock.advance(9);
  expect(given).not.toHaveBeenCalled();
  run.extend();
  await clock.advance(6);
  expect(given).not.toHaveBeenCalled();
  await clock.advance(1);
  await clock.settle();
  expect(given).toHaveBeenCalledWith(late);
});

test('one that was asked to end is given up after its grace, with the first reason', async () => {
  const clock = new VirtualClock();
  const run = new Run(clock);
  const given = vi.fn();
  void Promise.resolve(run.of(never)).catch(given);

  run.endWithin(5, late);
  run.endWithin(1, new Error('other'));
  await clock.advance(4);
  expect(given).not.toHaveBeenCalled();
  await clock.advance(1);
  await clock.settle();
  expect(given.mock.calls).toEqual([[late]]);
  run.end();
  expect(clock.pending).toBe(0);
});
