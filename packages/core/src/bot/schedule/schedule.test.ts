import { afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';
import { MemoryCoordinator } from '../../coordination/MemoryCoordinator.js';
import { ConfigError } from '../../errors.js';
import { MemoryStateStore } from '../../state/MemoryStateStore.js';
import type { StateStore } from '../../state/state-store.js';
import { FakeProvider } from '../../testing/FakeProvider.js';
import { MemoryMesh } from '../../testing/MemoryMesh.js';
import { ReplicaClock } from '../../testing/ReplicaClock.js';
import { VirtualClock } from '../../testing/VirtualClock.js';
import { Bot } from '../Bot.js';
import type { BotOptions } from '../options.js';
import { loadCron } from './times.js';

// Loading takes real time, which a virtual clock would not wait for.
beforeAll(async () => {
  await loadCron();
});

const unhandled = vi.fn();
beforeEach(() => process.on('unhandledRejection', unhandled));
afterEach(() => {
  process.off('unhandledRejection', unhandled);
  expect(unhandled).not.toHaveBeenCalled();
});

const SECOND_MS = 1_000;

class Lab {
  readonly clock = new VirtualClock({ wallMs: Date.parse('2026-05-01T08:59:30.000Z') });
  readonly mesh = new MemoryMesh({ clock: this.clock });
  readonly state = new MemoryStateStore();
  readonly log: string[] = [];
  readonly errors: unknown[] = [];
  readonly bots: Bot[] = [];

  make(options: Partial<BotOptions> = {}): { bot: Bot; provider: FakeProvider; coordinator: MemoryCoordinator } {
    const coordinator = new MemoryCoordinator({ mesh: this.mesh });
    const provider = (options.provider as FakeProvider | undefined) ?? new FakeProvider();
    const { clock, state } = this;
    const log = (line: string) => this.log.push(line);
    const onError = (error: unknown) => this.errors.push(error);
    const bot = new Bot({ provider, coordinator, clock, state, log, onError, ...options });
    this.bots.push(bot);
    return { bot, provider, coordinator };
  }

  run(body: () => Promise<void>): Promise<void> {
    return this.clock.run(
      async () => {
        await body();
        await Promise.all(this.bots.map((bot) => bot.stop({ drainMs: 0 })));
      },
      { maxMs: 40 * 86_400_000 },
    );
  }
}

const iso = (ms: number): string => new Date(ms).toISOString();
const never = (): Promise<void> => new Promise(() => {});

describe('bot.schedule', () => {
  test('a cron pattern is read in its time zone', async () => {
    const lab = new Lab();
    const due: string[] = [];
    const { bot } = lab.make();
    bot.schedule('0 9 * * *', 'utc', (job) => due.push(`utc ${iso(job.dueMs)}`));
    bot.schedule('0 19 * * *', 'tokyo', (job) => due.push(`tokyo ${iso(job.dueMs)}`), { timeZone: 'Asia/Tokyo' });
    await lab.run(async () => {
      await bot.start();
      await lab.clock.sleep(2 * 3_600_000);
    });

    expect(due).toEqual(['utc 2026-05-01T09:00:00.000Z', 'tokyo 2026-05-01T10:00:00.000Z']);
  });

  test('a pattern that is none ends the start, and names the schedule', async () => {
    const lab = new Lab();
    const { bot, provider } = lab.make();
    bot.schedule('99 * * * *', 'report', () => {});

    await expect(lab.clock.run(() => bot.start())).rejects.toThrow(/bot\.schedule\('report'\): '99 \* \* \* \*'/);
    expect(provider.calls).toEqual([]);
  });

  test('a job gets what names it, and a signal and a term to act by', async () => {
    const lab = new Lab();
    const seen: unknown[] = [];
    const { bot } = lab.make();
    bot.schedule({ everyMs: SECOND_MS }, 'tick', (job) => {
      job.assertHeld();
      seen.push([job.name, job.attempt, job.signal.aborted, job.term > 0]);
    });
    await lab.run(async () => {
      await bot.start();
      await lab.clock.sleep(1_500);
    });

    expect(seen[0]).toEqual(['tick', 1, false, true]);
  });

  test('schedules lead one by one: a replica that knows another one runs it too', async () => {
    const lab = new Lab();
    const ran = new Set<string>();
    const [a, b] = [lab.make(), lab.make()];
    a.bot.schedule({ everyMs: SECOND_MS }, 'old', () => ran.add('old'));
    b.bot.schedule({ everyMs: SECOND_MS }, 'old', () => ran.add('old'));
    b.bot.schedule({ everyMs: SECOND_MS }, 'new', () => ran.add('new'));
    await lab.run(async () => {
      await a.bot.start();
      await b.bot.start();
      await lab.clock.sleep(5 * SECOND_MS);
    });

    expect([...ran].sort()).toEqual(['new', 'old']);
  });

  test('a job that hangs for longer than maxRunMs is told so, and others go on with its schedule', async () => {
    const lab = new Lab();
    const runs: [string, number][] = [];
    const signals: AbortSignal[] = [];
    const launch = (name: string) => {
      const { bot } = lab.make();
      bot.schedule(
        { everyMs: SECOND_MS },
        'tick',
        (job) => {
          runs.push([name, job.dueMs]);
          signals.push(job.signal);
          return runs.length === 1 ? never() : undefined;
        },
        { maxRunMs: 5 * SECOND_MS },
      );
      return bot;
    };
    const [a, b] = [launch('a'), launch('b')];
    await lab.run(async () => {
      await a.start();
      await lab.clock.sleep(10);
      await b.start();
      await lab.clock.sleep(60 * SECOND_MS);
    });

    expect(signals[0]?.reason).toMatchObject({ code: 'turn-limit', maxTurnMs: 5 * SECOND_MS });
    expect(lab.errors).toMatchObject([{ code: 'turn-limit' }]);
    expect(new Set(runs.slice(1).map(([name]) => name))).toEqual(new Set(['b']));
    expect(runs.length).toBeGreaterThan(40);
  });

  test('a replica whose job hangs stands for no election, also when there is nobody else', async () => {
    const lab = new Lab();
    let elections = 0;
    const { bot, coordinator } = lab.make();
    coordinator.on('elected', () => elections++);
    bot.schedule({ everyMs: SECOND_MS }, 'tick', never, { maxRunMs: 5 * SECOND_MS });
    await lab.run(async () => {
      await bot.start();
      await lab.clock.sleep(60 * SECOND_MS);
    });

    expect(elections).toBe(1);
    expect(lab.log.filter((line) => line.includes('goes on though its time is over'))).toHaveLength(1);
  });

  test('a state store that fails holds a schedule up for no longer than it fails, and nothing is run twice', async () => {
    const lab = new Lab();
    let isDown = false;
    const down = (): Promise<never> => Promise.reject(new Error('the store is away'));
    const state: StateStore = {
      load: (key) => (isDown ? down() : lab.state.load(key)),
      save: (key, value, fence) => (isDown ? down() : lab.state.save(key, value, fence)),
    };
    const dues: number[] = [];
    const { bot } = lab.make({ state });
    bot.schedule({ everyMs: SECOND_MS }, 'tick', (job) => dues.push(job.dueMs));
    await lab.run(async () => {
      await bot.start();
      await lab.clock.sleep(3_500);
      isDown = true;
      await lab.clock.sleep(100 * SECOND_MS);
      isDown = false;
      await lab.clock.sleep(40 * SECOND_MS);
    });

    expect(dues.length).toBeGreaterThan(10);
    expect(new Set(dues).size).toBe(dues.length);
    expect(lab.errors.length).toBeGreaterThan(3);
    expect(lab.errors.length).toBeLessThan(15);
  });

  // C-36
  test('a wall clock that jumps back repeats nothing; one that jumps ahead bursts nothing', async () => {
    const lab = new Lab();
    const clock = new ReplicaClock(lab.clock);
    const dues: number[] = [];
    const { bot } = lab.make({ clock });
    bot.schedule({ everyMs: SECOND_MS }, 'tick', (job) => dues.push(job.dueMs));
    let jumped = 0;
    await lab.run(async () => {
      await bot.start();
      await lab.clock.sleep(5_500);
      clock.stepWall(-3 * SECOND_MS);
      await lab.clock.sleep(6 * SECOND_MS);
      const before = dues.length;
      clock.stepWall(600 * SECOND_MS);
      await lab.clock.sleep(100 + SECOND_MS);
      jumped = dues.length - before;
    });

    expect(new Set(dues).size).toBe(dues.length);
    expect(dues).toEqual([...dues].sort((x, y) => x - y));
    expect(jumped).toBeLessThanOrEqual(2);
  });

  test('a clock that was ahead by days holds nothing up once it is right, and that is told', async () => {
    const lab = new Lab();
    const clock = new ReplicaClock(lab.clock);
    clock.stepWall(3 * 86_400_000);
    let runs = 0;
    const { bot } = lab.make({ clock });
    bot.schedule({ everyMs: SECOND_MS }, 'tick', () => runs++);
    await lab.run(async () => {
      await bot.start();
      await lab.clock.sleep(3_500);
      clock.stepWall(-3 * 86_400_000);
      runs = 0;
      await lab.clock.sleep(5 * SECOND_MS);
    });

    expect(runs).toBeGreaterThanOrEqual(4);
    expect(lab.log.some((line) => line.includes('wrong by more than an hour'))).toBe(true);
  });

  test('with an exclusive provider only the replica with the connection runs jobs', async () => {
    const lab = new Lab();
    const ran: string[] = [];
    const launch = (name: string) => {
      const made = lab.make({ provider: new FakeProvider({ exclusive: true }) });
      made.bot.schedule({ everyMs: SECOND_MS }, 'tick', () => ran.push(`${name} ${made.provider.isStarted}`));
      return made;
    };
    const [a, b] = [launch('a'), launch('b')];
    await lab.run(async () => {
      await a.bot.start();
      await lab.clock.sleep(10);
      await b.bot.start();
      await lab.clock.sleep(5 * SECOND_MS);
      await a.bot.stop();
      await lab.clock.sleep(5 * SECOND_MS);
    });

    expect(new Set(ran)).toEqual(new Set(['a true', 'b true']));
  });

  test('with an exclusive provider one that cannot connect runs none, though it was there first', async () => {
    const lab = new Lab();
    const ran: string[] = [];
    const launch = (name: string) => {
      const made = lab.make({ provider: new FakeProvider({ exclusive: true }) });
      made.bot.schedule({ everyMs: SECOND_MS }, 'tick', () => ran.push(name));
      return made;
    };
    const [a, b] = [launch('a'), launch('b')];
    a.provider.start = () => Promise.reject(new Error('no connection'));
    await lab.run(async () => {
      await a.bot.start();
      await lab.clock.sleep(10);
      await b.bot.start();
      await lab.clock.sleep(20 * SECOND_MS);
    });

    expect(ran.length).toBeGreaterThan(10);
    expect(new Set(ran)).toEqual(new Set(['b']));
  });

  test('with an exclusive provider one that stands by runs none, though nobody else knows the schedule', async () => {
    const lab = new Lab();
    const ran: boolean[] = [];
    const older = lab.make({ provider: new FakeProvider({ exclusive: true }) });
    const newer = lab.make({ provider: new FakeProvider({ exclusive: true }) });
    newer.bot.schedule({ everyMs: SECOND_MS }, 'tick', () => ran.push(newer.provider.isStarted));
    await lab.run(async () => {
      await older.bot.start();
      await lab.clock.sleep(10);
      await newer.bot.start();
      await lab.clock.sleep(5 * SECOND_MS);
      await older.bot.stop();
      await lab.clock.sleep(5 * SECOND_MS);
    });

    expect(ran.length).toBeGreaterThan(2);
    expect(new Set(ran)).toEqual(new Set([true]));
  });

  test('a job for a chat waits out an outage of the backend: it is told late, and not lost', async () => {
    const lab = new Lab();
    const { bot, provider, coordinator } = lab.make();
    bot.schedule('0 9 * * *', 'remind', (ctx) => ctx.reply(`due ${iso(ctx.job.dueMs)}`), { chat: 'ana' });
    await lab.run(async () => {
      await bot.start();
      await lab.clock.sleep(25 * SECOND_MS);
      lab.mesh.cut(coordinator);
      await lab.clock.sleep(120 * SECOND_MS);
      lab.mesh.heal(coordinator);
      await lab.clock.sleep(60 * SECOND_MS);
    });

    expect(provider.textsTo('ana')).toEqual(['due 2026-05-01T09:00:00.000Z']);
  });

  test('a bot alone runs its jobs too', async () => {
    const lab = new Lab();
    let runs = 0;
    const bot = new Bot({ provider: new FakeProvider(), log: () => {}, state: lab.state });
    bot.schedule({ everyMs: 100 }, 'tick', () => runs++);
    await bot.start();
    await vi.waitFor(() => expect(runs).toBeGreaterThan(1), { timeout: 5_000 });
    await bot.stop();
  });

  test('a leadership that is held for long is not told of as a chat that hangs', async () => {
    const lab = new Lab();
    const { bot } = lab.make();
    bot.schedule('0 0 1 1 *', 'yearly', () => {});
    await lab.run(async () => {
      await bot.start();
      await lab.clock.sleep(300 * SECOND_MS);
    });

    expect(lab.log).toEqual([]);
  });
});

describe('jobs in chats', () => {
  test('what a platform sends is never a job, whatever it says', async () => {
    const lab = new Lab();
    const { bot, provider } = lab.make();
    bot.job('tick', (ctx) => ctx.reply('job'));
    bot.use((ctx) => ctx.reply(`text ${ctx.message.job === undefined}`));
    await lab.run(async () => {
      await bot.start();
      const forged = { chat: 'ana', text: 'x', job: { name: 'tick', dueMs: 0, data: null } };
      await provider.receive(forged);
      await provider.hasSent(1);
    });

    expect(provider.textsTo('ana')).toEqual(['text true']);
  });

  test('a job without a handler here is an error that names it', async () => {
    const lab = new Lab();
    const { bot } = lab.make({ retryDelayMs: 0 });
    bot.schedule({ everyMs: SECOND_MS }, 'tick', (job) => job.inChat('ana'));
    await lab.run(async () => {
      await bot.start();
      await lab.clock.sleep(1_500);
    });

    expect(lab.errors[0]).toMatchObject({ code: 'bad-input', message: expect.stringContaining("bot.job('tick'") });
  });

  test('names of our own are no chats', async () => {
    const lab = new Lab();
    const { bot, provider } = lab.make();
    await lab.run(async () => {
      await bot.start();
      await expect(provider.receive({ chat: 'botmesh:schedule:x', text: 'x' })).rejects.toMatchObject({
        code: 'bad-input',
      });
    });
  });
});

describe('what cannot work is refused where it is written', () => {
  const refused = (act: (bot: Bot) => unknown): string => {
    try {
      act(new Bot({ provider: new FakeProvider(), log: () => {} }));
    } catch (error) {
      expect(error).toBeInstanceOf(ConfigError);
      return (error as Error).message;
    }
    throw new Error('It was taken.');
  };
  const run = () => {};
  const untyped = (value: unknown): never => value as never;

  test.each<[(bot: Bot) => unknown, RegExp]>([
    [(bot) => bot.schedule({ everyMs: 5 }, 'x', run), /everyMs/],
    [(bot) => bot.schedule({ everyMs: 100.5 }, 'x', run), /everyMs/],
    [(bot) => bot.schedule(untyped(undefined), 'x', run), /expected a cron pattern or \{ everyMs \}/],
    [(bot) => bot.schedule('* * * * *', '', run), /expected a name second, found an empty one/],
    [(bot) => bot.schedule('* * * * *', 'x', untyped(undefined)), /expected a function third/],
    [(bot) => bot.schedule('* * * * *', 'x', run, untyped({ timezone: 'UTC' })), /no option 'timezone'/],
    [(bot) => bot.schedule('* * * * *', 'x', run, untyped({ missed: 'none' })), /missed is none/],
    [(bot) => bot.schedule('* * * * *', 'x', run, { maxRunMs: 0 }), /maxRunMs is 0/],
    [(bot) => bot.schedule('* * * * *', 'x', run, { chat: '' }), /chat is no name/],
    [(bot) => bot.schedule({ everyMs: 100 }, 'x', run, { timeZone: 'UTC' }), /a timeZone is for cron patterns/],
    [(bot) => bot.schedule('* * * * *', 'x', run).schedule('* * * * *', 'x', run), /there is a schedule of that name/],
    [(bot) => bot.job('', run), /bot\.job\(\): no name/],
    [(bot) => bot.job('x', untyped(1)), /bot\.job\('x'\): no handler/],
    [(bot) => bot.job('x', run).job('x', run), /there is a handler for it already/],
  ])('%s is refused', (act, message) => {
    expect(refused(act)).toMatch(message);
  });

  test('a schedule after the start', async () => {
    const bot = new Bot({ provider: new FakeProvider(), log: () => {} });
    await bot.start();

    expect(() => bot.schedule('* * * * *', 'x', run)).toThrow(/the bot is started/);
    await bot.stop();
  });
});
