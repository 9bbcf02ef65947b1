import { describe, expect, test } from 'vitest';
import { RateLimitedError } from '../errors.js';
import { VirtualClock } from '../testing/VirtualClock.js';
import { nextSlot, Pacer } from './Pacer.js';
import { hashOf, planSend } from './sends.js';

describe('what is on record of a reply decides', () => {
  test('nothing: it is sent', () => expect(planSend(undefined, 1, 'drop')).toBe('send'));
  test('sent: it is skipped', () => expect(planSend(['sent', 1], 1, 'resend')).toBe('skip'));
  test('failed: it is sent', () => expect(planSend(['failed', 1], 1, 'drop')).toBe('send'));
  test('unknown: the option decides', () => {
    expect(planSend(['unknown', 1], 1, 'drop')).toBe('drop');
    expect(planSend(['unknown', 1], 1, 'resend')).toBe('resend');
  });
  test('another one in its place: it is sent as such', () => {
    expect(planSend(['sent', 1], 2, 'drop')).toBe('other');
    expect(planSend(['sent', 0], 0, 'drop')).toBe('other');
  });

  test('a hash tells replies apart by all their fields, and nothing equals one that has no JSON', () => {
    const circular: { text: string; self?: unknown } = { text: 'a' };
    circular.self = circular;

    expect(hashOf({ text: 'a' })).toBe(hashOf({ text: 'a' }));
    expect(hashOf({ text: 'a' })).not.toBe(hashOf({ text: 'a', silent: true }));
    expect(hashOf(circular)).toBe(0);
    // Stored: another number would be another format.
    expect(hashOf({ text: 'hello' })).toBe(2_310_402_072);
  });
});

describe('the pace of a process alone', () => {
  test('a burst leaves at once, then one each slot', () => {
    let dueMs = 0;
    const waits: number[] = [];
    for (let n = 0; n < 5; n++) {
      const [waitMs, next] = nextSlot(dueMs, 0, 10, 20, 0);
      waits.push(waitMs);
      dueMs = next;
    }

    expect(waits).toEqual([0, 0, 0, 10, 20]);
  });

  test('a pause gives no slot before its end, and none is lost to a silence', () => {
    const [waitMs, dueMs] = nextSlot(0, 100, 10, 20, 50);

    expect([waitMs, nextSlot(dueMs, 100, 10, 20, 0)[0]]).toEqual([50, 50]);
    expect(nextSlot(0, 1_000, 10, 0, 0)).toEqual([0, 1_010]);
  });

  test('a pacer keeps the rates of account and chat, and a pause of either', async () => {
    const clock = new VirtualClock();
    const pacer = new Pacer(
      clock,
      undefined,
      { accountOf: () => 'fake', placeOf: (chat) => chat },
      {
        account: { perSecond: 100, burst: 2 },
        chat: { perSecond: 10 },
      },
    );
    const { signal } = new AbortController();
    const times: Record<string, number> = {};
    const send = (chat: string, name: string): Promise<void> =>
      pacer.wait(chat, signal).then(() => {
        times[name] = clock.monotonicMs();
      });

    await clock.run(async () => {
      await Promise.all([send('a', 'a1'), send('a', 'a2'), send('b', 'b1')]);
      await pacer.hold('a', new RateLimitedError(500, { scope: 'chat' }));
      await Promise.all([send('a', 'a3'), send('b', 'b2')]);
    });

    expect(times).toEqual({ a1: 0, a2: 100, b1: 10, a3: 600, b2: 100 });
  });

  test('chats of one place keep its rate together, and a pause of one holds the others', async () => {
    const clock = new VirtualClock();
    const placeOf = (chat: string): string => chat.slice(0, 1);
    const pacer = new Pacer(clock, undefined, { accountOf: () => 'fake', placeOf }, { chat: { perSecond: 10 } });
    const { signal } = new AbortController();
    const times: Record<string, number> = {};
    const send = (chat: string): Promise<void> =>
      pacer.wait(chat, signal).then(() => {
        times[chat] = clock.monotonicMs();
      });

    await clock.run(async () => {
      await Promise.all([send('a1'), send('a2'), send('b1')]);
      await pacer.hold('a1', new RateLimitedError(500, { scope: 'chat' }));
      await Promise.all([send('a3'), send('b2')]);
    });

    expect(times).toEqual({ a1: 0, a2: 100, b1: 0, a3: 600, b2: 100 });
  });

  test('each account has a rate of its own, and a pause of one holds no other', async () => {
    const clock = new VirtualClock();
    const accountOf = (chat: string): string => chat.slice(0, 1);
    const pacer = new Pacer(clock, undefined, { accountOf, placeOf: (chat) => chat }, { account: { perSecond: 10 } });
    const { signal } = new AbortController();
    const times: Record<string, number> = {};
    const send = (chat: string): Promise<void> =>
      pacer.wait(chat, signal).then(() => {
        times[chat] = clock.monotonicMs();
      });

    await clock.run(async () => {
      await Promise.all([send('a1'), send('a2'), send('b1')]);
      await pacer.hold('a1', new RateLimitedError(500));
      await Promise.all([send('a3'), send('b2')]);
    });

    expect(times).toEqual({ a1: 0, a2: 100, b1: 0, a3: 600, b2: 100 });
  });
});
