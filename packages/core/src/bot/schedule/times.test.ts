import { describe, expect, test } from 'vitest';
import { seededRandom } from '../../testing/random.js';
import { cronTimes, everyTimes, loadCron, type Times } from './times.js';

const croner = await loadCron();
const cron = (pattern: string, zone = 'UTC'): Times => cronTimes(croner, pattern, zone, "bot.schedule('x')");
const ms = (iso: string): number => Date.parse(iso);
const iso = (at: number | undefined): string | undefined => (at === undefined ? at : new Date(at).toISOString());

/** The due times after `from`, as many as asked for. */
function upcoming(times: Times, from: string, count: number): (string | undefined)[] {
  const found: (string | undefined)[] = [];
  let at: number | undefined = ms(from);
  for (let n = 0; n < count && at !== undefined; n++) {
    at = times.next(at);
    found.push(iso(at));
  }
  return found;
}

describe('a cron pattern', () => {
  test('is due at its moments, and not again at the moment itself', () => {
    const nine = cron('0 9 * * *');

    expect(upcoming(nine, '2026-05-01T09:00:00.000Z', 2)).toEqual([
      '2026-05-02T09:00:00.000Z',
      '2026-05-03T09:00:00.000Z',
    ]);
    expect(iso(nine.next(ms('2026-05-01T08:59:59.999Z')))).toBe('2026-05-01T09:00:00.000Z');
    expect(iso(nine.latest(ms('2026-05-01T09:00:00.000Z')))).toBe('2026-05-01T09:00:00.000Z');
    expect(iso(nine.latest(ms('2026-05-01T08:59:59.999Z')))).toBe('2026-04-30T09:00:00.000Z');
  });

  test('in spring an hour that does not exist is made up for when it is over, once', () => {
    const halfPastTwo = cron('30 2 * * *', 'Europe/Berlin');

    expect(upcoming(halfPastTwo, '2026-03-28T00:00:00.000Z', 3)).toEqual([
      '2026-03-28T01:30:00.000Z',
      '2026-03-29T01:00:00.000Z',
      '2026-03-30T00:30:00.000Z',
    ]);
  });

  test('in autumn a time of day that comes twice is due once', () => {
    const halfPastTwo = cron('30 2 * * *', 'Europe/Berlin');

    expect(upcoming(halfPastTwo, '2026-10-24T00:00:00.000Z', 3)).toEqual([
      '2026-10-24T00:30:00.000Z',
      '2026-10-25T00:30:00.000Z',
      '2026-10-26T01:30:00.000Z',
    ]);
  });

  test('in autumn every hour is every hour, also the one that comes twice', () => {
    expect(upcoming(cron('0 * * * *', 'Europe/Berlin'), '2026-10-24T23:30:00.000Z', 3)).toEqual([
      '2026-10-25T00:00:00.000Z',
      '2026-10-25T01:00:00.000Z',
      '2026-10-25T02:00:00.000Z',
    ]);
  });

  test('that never comes has no due time', () => {
    const never = cron('0 0 30 2 *');

    expect([never.next(0), never.latest(ms('2026-01-01T00:00:00Z'))]).toEqual([undefined, undefined]);
  });

  test.each(['99 * * * *', 'every day', ''])('that is none is refused: %j', (pattern) => {
    expect(() => cron(pattern)).toThrow(/bot\.schedule\('x'\): .* is no cron pattern/);
  });

  test('in a time zone that does not exist is refused', () => {
    expect(() => cron('0 9 * * *', 'Middle/Earth')).toThrow(
      expect.objectContaining({
        code: 'config',
        message: expect.stringMatching(/^bot\.schedule\('x'\): time zone 'Middle\/Earth' is not known here\./),
      }),
    );
  });

  test('without the package croner is refused, and says what to install', async () => {
    const failing = loadCron(() => Promise.reject(new Error('not found')));

    await expect(failing).rejects.toMatchObject({
      code: 'config',
      message: expect.stringContaining('npm install croner'),
    });
  });
});

test.each([
  ['*/7 * * * *', 'UTC'],
  ['30 2 * * *', 'Europe/Berlin'],
  ['15 1,2,3 * * *', 'America/New_York'],
  ['0 9 * * 1-5', 'Australia/Lord_Howe'],
  ['*/20 * * * * *', 'Asia/Kathmandu'],
])('forwards and back agree: %s in %s', (pattern, zone) => {
  const times = cron(pattern, zone);
  const random = seededRandom(7);
  for (let n = 0; n < 300; n++) {
    const at = Math.floor(ms('2026-01-01T00:00:00Z') + random() * 366 * 86_400_000);
    const next = times.next(at)!;

    expect([iso(at), next > at, iso(times.latest(next)), (times.latest(next - 1) ?? 0) <= at]).toEqual([
      iso(at),
      true,
      iso(next),
      true,
    ]);
  }
});

test('every so many milliseconds is the same moments on all hosts', () => {
  const times = everyTimes(60_000);

  expect([times.next(119_999), times.next(120_000), times.latest(120_000), times.latest(119_999)]).toEqual([
    120_000, 180_000, 120_000, 60_000,
  ]);
});
