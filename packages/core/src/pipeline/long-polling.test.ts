import { afterEach, expect, test, vi } from 'vitest';
import { Bot } from '../bot/Bot.js';
import { MemoryCoordinator } from '../coordination/MemoryCoordinator.js';
import type { Provider } from '../providers/provider.js';
import { MemoryMesh } from '../testing/MemoryMesh.js';
import { VirtualClock } from '../testing/VirtualClock.js';
import { type Conflict, type LongPollingOptions, longPolling } from './long-polling.js';

const closing: (() => Promise<void>)[] = [];

afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

/** A platform that keeps what was not confirmed, and counts who polls. */
class Platform {
  readonly updates: number[] = [];
  readonly polls: number[] = [];
  /** Thrown by the next polls. */
  readonly faults: Error[] = [];
  confirmed = 0;
  pollers = 0;
  most = 0;
  #wake = (): void => {};

  add(number: number): void {
    this.updates.push(number);
    this.#wake();
  }

  async poll(offset: number, signal: AbortSignal): Promise<number[]> {
    this.polls.push(offset);
    this.confirmed = Math.max(this.confirmed, offset);
    const fault = this.faults.shift();
    if (fault !== undefined) throw fault;
    this.pollers += 1;
    this.most = Math.max(this.most, this.pollers);
    try {
      if (this.#open().length === 0) {
        await new Promise<void>((resolve, reject) => {
          this.#wake = resolve;
          signal.addEventListener('abort', () => reject(signal.reason as Error), { once: true });
        });
      }
      return this.#open();
    } finally {
      this.pollers -= 1;
    }
  }

  #open(): number[] {
    return this.updates.filter((number) => number >= this.confirmed);
  }
}

function provider(platform: Platform, options: Partial<LongPollingOptions<number>> = {}): Provider {
  const polling = longPolling<number>({
    name: 'polled',
    connect: async () => {},
    poll: (offset, signal) => platform.poll(offset, signal),
    confirm: async (offset) => {
      platform.confirmed = offset;
    },
    numberOf: (number) => number,
    read: (number) => ({ chat: 'k', id: `${number}`, text: `${number}` }),
    judge: (error) => ({ what: (error as Error).message, isConflict: (error as Error).message === 'conflict' }),
    log: () => {},
    ...options,
  });
  return { ...polling, send() {} };
}

async function replica(mesh: MemoryMesh, own: Provider, seen: string[]) {
  const coordinator = new MemoryCoordinator({ mesh });
  const bot = new Bot({ provider: own, coordinator, log: () => {} });
  bot.use((ctx) => void seen.push(ctx.message.text));
  await bot.start();
  closing.push(() => bot.stop());
  return { bot, coordinator };
}

// C-40, C-53
test('one replica polls, and the other says that it stands by; what it took in is confirmed when it stops, and the next one goes on', async () => {
  const mesh = new MemoryMesh();
  const platform = new Platform();
  const seen: string[] = [];
  const a = await replica(mesh, provider(platform), seen);
  await vi.waitFor(() => expect(platform.pollers).toBe(1));
  const b = await replica(mesh, provider(platform), seen);
  const health = async ({ bot }: { bot: Bot }) =>
    ((await (await bot.webhook(new Request('http://bot/readyz'))).json()) as { status: string }).status;
  expect([await health(a), await health(b)]).toEqual(['ready', 'standby']);

  platform.add(1);
  platform.add(2);
  await vi.waitFor(() => expect(seen).toEqual(['1', '2']));
  await a.bot.stop();
  expect(platform.confirmed).toBe(3);
  platform.add(3);

  await vi.waitFor(() => expect(seen).toEqual(['1', '2', '3']));
  expect(platform.most).toBe(1);
});

test('an update that was not taken in is not confirmed, and asked for again', async () => {
  const mesh = new MemoryMesh();
  const clock = new VirtualClock();
  const platform = new Platform();
  const own = provider(platform, { clock });
  const refused = new Set(['2']);
  const taken: (string | undefined)[] = [];
  await own.start(async ({ id }) => {
    if (refused.has(id ?? '')) throw new Error('away');
    taken.push(id);
    return 'accepted';
  });
  closing.push(async () => own.stop());
  void mesh;

  for (const number of [1, 2, 3]) platform.updates.push(number);
  platform.add(4);
  await vi.waitFor(() => expect(taken).toContain('1'));
  await clock.advance(500);
  expect(platform.confirmed).toBeLessThanOrEqual(2);
  refused.clear();
  await clock.advance(5_000);

  await vi.waitFor(() => expect(platform.confirmed).toBe(5));
  expect(taken).toContain('2');
});

test('an update that is too long is left out and told of, and those after it are taken in', async () => {
  const platform = new Platform();
  const lines: string[] = [];
  const seen: string[] = [];
  const own = provider(platform, {
    log: (line) => lines.push(line),
    read: (number) => ({ chat: 'k', id: `${number}`, text: number === 2 ? 'x'.repeat(2_000) : `${number}` }),
  });
  const coordinator = new MemoryCoordinator({ maxBodyBytes: 1_000 });
  const bot = new Bot({ provider: own, coordinator, log: () => {} });
  bot.use((ctx) => void seen.push(ctx.message.text));
  await bot.start();
  closing.push(() => bot.stop());

  for (const number of [1, 2, 3]) platform.add(number);

  await vi.waitFor(() => expect([seen, platform.confirmed]).toEqual([['1', '3'], 4]));
  expect(lines).toHaveLength(1);
  expect(lines[0]).toMatch(/update 2 can never be taken in.*maxBodyBytes/);
});

// C-44
test('a conflict is answered by growing pauses while this replica leads, and told', async () => {
  const clock = new VirtualClock();
  const platform = new Platform();
  const told: Conflict[] = [];
  for (let n = 0; n < 8; n++) platform.faults.push(new Error('conflict'));
  const own = provider(platform, { clock, onConflict: (conflict) => told.push(conflict) });
  await own.start(async () => 'accepted', { signal: new AbortController().signal, assertHeld() {} });
  closing.push(async () => own.stop());

  await clock.advance(10 * 60_000);

  await vi.waitFor(() => expect(platform.pollers).toBe(1));
  expect(told.map(({ delayMs }) => delayMs / 1000)).toEqual([1, 2, 4, 8, 16, 32, 60, 60]);
  expect(platform.polls).toHaveLength(9);
});

test('a conflict after the leadership is lost ends the polls at once', async () => {
  const platform = new Platform();
  const told: Conflict[] = [];
  platform.faults.push(new Error('conflict'));
  let isHeld = true;
  const own = provider(platform, { onConflict: (conflict) => told.push(conflict) });
  const poll = platform.poll.bind(platform);
  platform.poll = (offset, signal) => {
    isHeld = false;
    return poll(offset, signal);
  };

  await own.start(async () => 'accepted', {
    signal: new AbortController().signal,
    assertHeld() {
      if (!isHeld) throw new Error('lost');
    },
  });
  await own.stop();

  expect(platform.polls).toHaveLength(1);
  expect(told).toEqual([]);
});

test('a poll that never ends is cut off, told and made again, so that a broken connection stalls nobody', async () => {
  const clock = new VirtualClock();
  const platform = new Platform();
  const log: string[] = [];
  const own = provider(platform, { clock, longestPollMs: 23_000, log: (line) => log.push(line) });
  const poll = platform.poll.bind(platform);
  platform.poll = (offset, signal) => {
    if (platform.polls.length > 0) return poll(offset, signal);
    platform.polls.push(offset);
    return new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason as Error)));
  };
  const taken: (string | undefined)[] = [];
  await own.start(async ({ id }) => {
    taken.push(id);
    return 'accepted';
  });
  closing.push(async () => own.stop());

  await clock.advance(22_999);
  platform.add(1);
  expect(platform.polls).toHaveLength(1);
  await clock.advance(1_001);

  await vi.waitFor(() => expect(taken).toEqual(['1']));
  expect(log.join()).toContain('no answer within 23000 ms');
});

test('a connect that never ends is given up, also when it does not look at its signal', async () => {
  const clock = new VirtualClock();
  const own = provider(new Platform(), { clock, longestPollMs: 23_000, connect: () => new Promise(() => {}) });
  const started = Promise.resolve(own.start(async () => 'accepted')).then(
    () => 'started',
    (error: Error) => error.message,
  );

  await clock.advance(23_000);

  expect(await started).toBe('polled: no answer within 23000 ms');
});

test('a platform that answers at once, and with nothing, is not asked without a pause', async () => {
  const clock = new VirtualClock();
  let polls = 0;
  const poll = async () => {
    polls += 1;
    return [];
  };
  const own = longPolling<number>({
    name: 'polled',
    connect: async () => {},
    poll,
    confirm: async () => {},
    numberOf: (number) => number,
    read: (number) => ({ chat: 'k', text: `${number}` }),
    judge: () => ({ what: 'nothing' }),
    clock,
  });
  await own.start(async () => 'accepted');
  closing.push(async () => own.stop());

  await clock.advance(10_000);

  expect(polls).toBeGreaterThan(20);
  expect(polls).toBeLessThanOrEqual(41);
});
