import { describe, expect, test } from 'vitest';
import { collectWaitMs, interrupting, isClosed, type OverlapMode, plan, ruleOf, settleOverlap } from './overlap.js';

describe('what waits decides', () => {
  const cases: [OverlapMode, OverlapMode[], ReturnType<typeof plan>][] = [
    ['serial', [], { do: 'run', more: 0 }],
    ['serial', ['serial', 'collect', 'latest'], { do: 'run', more: 0 }],
    ['serial', ['interrupt', 'interrupt', 'serial', 'interrupt'], { do: 'run', more: 2 }],
    ['serial', ['serial', 'interrupt'], { do: 'run', more: 0 }],
    ['collect', ['collect', 'collect', 'serial', 'collect'], { do: 'run', more: 2 }],
    ['collect', ['collect', 'interrupt', 'collect'], { do: 'run', more: 2 }],
    ['collect', ['latest', 'collect'], { do: 'run', more: 0 }],
    ['latest', ['latest', 'latest', 'latest', 'serial'], { do: 'yield', more: 2 }],
    ['latest', ['latest'], { do: 'yield', more: 0 }],
    ['latest', ['serial', 'latest'], { do: 'run', more: 0 }],
    ['latest', ['interrupt'], { do: 'run', more: 1 }],
    ['reject', ['reject', 'collect'], { do: 'run', more: 0 }],
  ];
  test.each(cases)('%s with %j behind it: %j', (mode, behind, expected) => {
    expect(plan(mode, behind)).toEqual(expected);
  });

  test('only what stands right behind the messages of a turn interrupts it', () => {
    expect(interrupting(['collect', 'interrupt', 'interrupt'], 1)).toBe(2);
    expect(interrupting(['collect', 'interrupt'], 0)).toBe(0);
    expect(interrupting([], 0)).toBe(0);
  });

  test('a message that is not collected ends the wait for more', () => {
    expect(isClosed(['collect', 'collect'])).toBe(false);
    expect(isClosed(['collect', 'serial'])).toBe(true);
    expect(isClosed([])).toBe(false);
  });

  test('a collecting turn waits until it was quiet, and no longer than its longest wait', () => {
    const rule = { mode: 'collect', quietMs: 100, maxWaitMs: 250 } as const;

    expect(collectWaitMs(rule, 0, 0, 0)).toBe(100);
    expect(collectWaitMs(rule, 0, 100, 100)).toBe(100);
    expect(collectWaitMs(rule, 0, 200, 200)).toBe(50);
    expect(collectWaitMs(rule, 0, 100, 200)).toBe(0);
    expect(collectWaitMs(rule, 0, 250, 260)).toBe(0);
  });
});

describe('the option', () => {
  test('one mode counts for all kinds, serial if none is given', () => {
    expect(ruleOf(settleOverlap(undefined), 'edit').mode).toBe('serial');
    expect(settleOverlap(undefined).areSerial).toBe(true);
    expect(ruleOf(settleOverlap('latest'), undefined).mode).toBe('latest');
    expect(ruleOf(settleOverlap({ mode: 'collect', quietMs: 5 }), 'x')).toEqual({
      mode: 'collect',
      quietMs: 5,
      maxWaitMs: 10_000,
    });
  });

  test('each kind may have a mode of its own', () => {
    const rules = settleOverlap({ kinds: { edit: 'collect', stop: 'interrupt' } });

    expect(ruleOf(rules, 'edit').mode).toBe('collect');
    expect(ruleOf(rules, 'stop').mode).toBe('interrupt');
    expect(ruleOf(rules, 'toString').mode).toBe('serial');
    expect(ruleOf(rules, undefined).mode).toBe('serial');
    expect(rules).toMatchObject({ areSerial: false, interrupt: true });
  });

  const bad: [unknown, RegExp][] = [
    ['parallel', /overlap: expected one of serial, .*found 'parallel'/],
    [7, /overlap: expected one of .*found undefined/],
    [{ mode: 'latest', quietMs: 5 }, /no option 'quietMs'/],
    [{ mode: 'collect', quietMs: -1 }, /quietMs is -1/],
    [{ mode: 'collect', maxWaitMs: Number.NaN }, /maxWaitMs is NaN/],
    [{ default: 'latest' }, /kinds is missing/],
    [{ kinds: { edit: 'no' } }, /overlap.kinds.edit: .*found 'no'/],
    [{ kinds: {}, edit: 'latest' }, /no option 'edit'/],
    [null, /overlap: expected one of/],
  ];
  test.each(bad)('%j is refused by name', (option, message) => {
    expect(() => settleOverlap(option as never)).toThrow(message);
  });
});
