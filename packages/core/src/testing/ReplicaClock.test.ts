import { describe, expect, test } from 'vitest';
import { elapsedMs, instant } from '../time/clock.js';
import { ReplicaClock } from './ReplicaClock.js';
import { VirtualClock } from './VirtualClock.js';

function setUp() {
  const base = new VirtualClock();
  const clock = new ReplicaClock(base);
  const ran: string[] = [];
  const set = (name: string, delayMs: number) =>
    clock.setTimer(delayMs, () => ran.push(`${name} ${base.monotonicMs()}`));
  return { base, clock, ran, set };
}

describe('ReplicaClock', () => {
  test('frozen, timers wait for the thaw and then run in due order, and time runs on', async () => {
    const { base, clock, ran, set } = setUp();
    set('late', 20);
    set('early', 10);
    set('after', 200);
    const start = instant(clock);

    clock.freeze();
    await base.advance(100);
    expect(ran).toEqual([]);
    expect(elapsedMs(clock, start)).toBe(100);
    clock.thaw();
    await base.advance(100);

    expect(ran).toEqual(['early 100', 'late 100', 'after 200']);
  });

  test('held timers run one macrotask apart', async () => {
    const { base, clock } = setUp();
    const seen: string[] = [];
    for (const name of ['a', 'b']) {
      const work = async (): Promise<void> => {
        for (let n = 0; n < 20; n++) await Promise.resolve();
        seen.push(name, '|');
      };
      clock.setTimer(1, () => void work());
    }

    clock.freeze();
    await base.advance(5);
    clock.thaw();
    await base.advance(0);

    expect(seen).toEqual(['a', '|', 'b', '|']);
  });

  test('a timer set after the thaw does not overtake one that was held', async () => {
    const { base, clock, ran, set } = setUp();
    set('held', 5);

    clock.freeze();
    await base.advance(10);
    clock.thaw();
    set('new', 0);
    await base.advance(0);

    expect(ran).toEqual(['held 10', 'new 10']);
  });

  test('a held timer that is removed before its turn does not run', async () => {
    const { base, clock, ran, set } = setUp();
    const held = set('held', 5);

    clock.freeze();
    await base.advance(10);
    clock.thaw();
    clock.clearTimer(held);
    await base.advance(0);

    expect(ran).toEqual([]);
  });

  test('frozen again before they ran, held timers wait again', async () => {
    const { base, clock, ran, set } = setUp();
    set('a', 1);
    set('b', 2);

    clock.freeze();
    await base.advance(10);
    clock.thaw();
    clock.freeze();
    await base.advance(10);
    expect(ran).toEqual([]);
    clock.thaw();
    await base.advance(0);

    expect(ran).toEqual(['a 20', 'b 20']);
  });

  test('suspended, the monotonic clock and all timers stand still, and the wall clock runs on', async () => {
    const { base, clock, ran, set } = setUp();
    set('a', 30);
    await base.advance(10);
    const start = instant(clock);

    clock.suspend();
    await base.advance(500);
    expect(clock.monotonicMs()).toBe(10);
    expect(elapsedMs(clock, start)).toBe(500);
    clock.thaw();
    await base.advance(19);
    expect(ran).toEqual([]);
    await base.advance(1);

    expect(ran).toEqual(['a 530']);
    expect(clock.monotonicMs()).toBe(30);
  });

  test('a stepped wall clock touches neither timers nor the monotonic clock', async () => {
    const { base, clock, ran, set } = setUp();
    set('a', 10);

    clock.stepWall(-3_600_000);
    await base.advance(10);

    expect(clock.wallMs()).toBe(base.wallMs() - 3_600_000);
    expect(clock.monotonicMs()).toBe(10);
    expect(ran).toEqual(['a 10']);
  });

  test('killed, nothing runs any more and nothing stays set', async () => {
    const { base, clock, ran, set } = setUp();
    set('held', 5);
    set('set', 50);
    clock.freeze();
    await base.advance(10);

    clock.kill();
    clock.thaw();
    set('new', 1);
    await base.advance(100);

    expect(ran).toEqual([]);
    expect(base.pending).toBe(0);
  });
});
