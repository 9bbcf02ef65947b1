import { describe, expect, test, vi } from 'vitest';
import { VirtualClock } from './VirtualClock.js';

describe('VirtualClock', () => {
  test('timers run in order of time, then of setting, and read the time they were set for', async () => {
    const clock = new VirtualClock();
    const ran: string[] = [];
    clock.setTimer(20, () => ran.push(`c ${clock.monotonicMs()}`));
    clock.setTimer(10, () => ran.push(`a ${clock.monotonicMs()}`));
    clock.setTimer(10, () => ran.push(`b ${clock.monotonicMs()}`));
    clock.setTimer(31, () => ran.push('too late'));

    await clock.advance(30);

    expect(ran).toEqual(['a 10', 'b 10', 'c 20']);
    expect(clock.wallMs()).toBe(1_800_000_000_030);
    expect(clock.pending).toBe(1);
  });

  test('a fraction of a millisecond is a millisecond, so a wait for the rest of a duration ends', async () => {
    const clock = new VirtualClock();
    const untilMs = 1000 / 3;
    const wait = (): void => {
      if (clock.monotonicMs() < untilMs) clock.setTimer(untilMs - clock.monotonicMs(), wait);
    };
    clock.setTimer(0.1, wait);

    await clock.advance(1000);

    expect(clock.pending).toBe(0);
  });

  test('a long promise chain settles between two timers of one time', async () => {
    const clock = new VirtualClock();
    const seen: string[] = [];
    for (let n = 0; n < 200; n++) {
      const work = async (): Promise<void> => {
        for (let step = 0; step < 50; step++) await Promise.resolve();
        seen.push(`end ${n}`);
      };
      clock.setTimer(5, () => void work());
      clock.setTimer(5, () => seen.push(`next ${n}`));
    }

    await clock.advance(5);

    expect(seen).toEqual(Array.from({ length: 200 }, (_, n) => [`end ${n}`, `next ${n}`]).flat());
  });

  test('a removed timer does not run, whatever its place', async () => {
    const clock = new VirtualClock({ seed: 7 });
    const ran: number[] = [];
    const timers = Array.from({ length: 500 }, (_, n) => {
      const at = Math.floor(clock.random() * 100);
      return { n, at, timer: clock.setTimer(at, () => ran.push(n)) };
    });
    const removed = timers.filter(({ n }) => n % 3 === 0);
    for (const { timer } of removed) {
      clock.clearTimer(timer);
      clock.clearTimer(timer);
    }

    await clock.advance(100);

    const left = timers.filter(({ n }) => n % 3 !== 0).sort((a, b) => a.at - b.at || a.n - b.n);
    expect(ran).toEqual(left.map(({ n }) => n));
    expect(clock.pending).toBe(0);
  });

  test('the same seed gives the same numbers and ids, another seed others', () => {
    const draw = (seed: number) => {
      const clock = new VirtualClock({ seed });
      return [clock.random(), clock.random(), clock.uniqueId(), clock.uniqueId()];
    };

    expect(draw(1)).toEqual(draw(1));
    expect(new Set([...draw(1), ...draw(2)]).size).toBe(8);
  });

  test('run moves the clock by itself until the body ends', async () => {
    const clock = new VirtualClock();

    const result = await clock.run(async () => {
      await clock.sleep(60_000);
      return clock.monotonicMs();
    });

    expect(result).toBe(60_000);
  });

  test('run ends with the body, whatever is still set', async () => {
    const clock = new VirtualClock();
    const beat = (): void => void clock.setTimer(1000, beat);
    beat();

    await clock.run(() => clock.sleep(5500));

    expect(clock.monotonicMs()).toBe(5500);
    expect(clock.pending).toBe(1);
  });

  test('a body that waits for nothing is an error, as is one that waits too long', async () => {
    const clock = new VirtualClock();
    const beat = (): void => void clock.setTimer(1000, beat);

    await expect(clock.run(() => new Promise(() => {}))).rejects.toThrow('nothing is left to wait for');
    beat();
    await expect(clock.run(() => new Promise(() => {}), { maxMs: 9500 })).rejects.toThrow('after 9500 ms');
    expect(clock.monotonicMs()).toBe(9000);
  });

  test('what a body or a timer throws reaches the caller', async () => {
    const clock = new VirtualClock();
    clock.setTimer(1, () => {
      throw new Error('from the timer');
    });

    await expect(clock.run(() => Promise.reject(new Error('from the body')))).rejects.toThrow('from the body');
    await expect(clock.advance(1)).rejects.toThrow('from the timer');
    await clock.advance(1);
    expect(clock.monotonicMs()).toBe(2);
  });

  test('the clock is moved by one hand at a time', async () => {
    const clock = new VirtualClock();

    await clock.run(async () => {
      await expect(clock.advance(1)).rejects.toThrow('moved by itself');
      expect(await clock.run(() => clock.sleep(5).then(() => 'inner'))).toBe('inner');
    });
    const byHand = clock.advance(1);
    await expect(clock.run(() => clock.sleep(1))).rejects.toThrow('by hand');
    await byHand;
  });

  test('timers that set each other without time passing are an error', async () => {
    const clock = new VirtualClock();
    const again = (): void => void clock.setTimer(0, again);
    again();

    await expect(clock.advance(1)).rejects.toThrow('Time stands still');
  });

  test('time stands still while the clock is held, and goes on when the last hold ends', async () => {
    const clock = new VirtualClock();
    const realIo = async (ms: number): Promise<number> => {
      const release = clock.hold();
      await new Promise((resolve) => setTimeout(resolve, ms));
      release();
      release();
      return clock.monotonicMs();
    };

    const atMs = await clock.run(async () => {
      await clock.sleep(100);
      return Promise.all([realIo(5), realIo(20), clock.sleep(1).then(() => clock.monotonicMs())]);
    });
    const held = realIo(5);
    await clock.advance(50);

    expect(atMs).toEqual([100, 100, 101]);
    expect(await held).toBe(101);
    expect(clock.monotonicMs()).toBe(151);
  });

  test('fake timers of the test runner do not stop it', async () => {
    vi.useFakeTimers();
    try {
      const clock = new VirtualClock();
      await clock.run(() => clock.sleep(1000));
      expect(clock.monotonicMs()).toBe(1000);
    } finally {
      vi.useRealTimers();
    }
  });
});
