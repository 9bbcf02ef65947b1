import type { Bot } from '../../bot/Bot.js';
import type { Job } from '../../bot/schedule/Job.js';
import type { ScheduleOptions } from '../../bot/schedule/Schedules.js';
import { claim, claimEqual, claimRising } from '../suite/claims.js';
import type { BotLab, LabBot } from './BotLab.js';

interface Ran {
  readonly dueMs: number;
  readonly attempt: number;
  readonly by: LabBot;
}

/** What one schedule did on all replicas. */
class Diary {
  readonly begun: Ran[] = [];
  readonly ended: Ran[] = [];
  running = 0;
  mostAtOnce = 0;
  readonly #lab: BotLab;

  constructor(lab: BotLab) {
    this.#lab = lab;
  }

  /** Teaches a bot the schedule `tick`, whose job is `work`. */
  set(work: (job: Job, self: LabBot) => unknown = () => {}, options: ScheduleOptions & { chat?: undefined } = {}) {
    return (bot: Bot, self: LabBot): void => {
      bot.schedule({ everyMs: this.#lab.tickMs }, 'tick', (job) => this.#keep(job, self, work), options);
    };
  }

  get dues(): number[] {
    return this.begun.map(({ dueMs }) => dueMs);
  }

  /** The due times in ticks, counted from the first. */
  get ticks(): number[] {
    return this.dues.map((dueMs) => (dueMs - this.dues[0]!) / this.#lab.tickMs);
  }

  async #keep(job: Job, by: LabBot, work: (job: Job, self: LabBot) => unknown): Promise<void> {
    const ran = { dueMs: job.dueMs, attempt: job.attempt, by };
    this.begun.push(ran);
    this.running++;
    this.mostAtOnce = Math.max(this.mostAtOnce, this.running);
    const left = (): void => {
      this.running--;
    };
    // A job that its process took along runs no more: a leader is only followed when it has ended.
    job.signal.addEventListener('abort', left, { once: true });
    await work(job, by);
    if (job.signal.aborted) return;
    job.signal.removeEventListener('abort', left);
    left();
    this.ended.push(ran);
  }
}

const upTo = (count: number): number[] => Array.from({ length: count }, (_, n) => n);

export const schedules: Record<string, (lab: BotLab) => Promise<void>> = {
  // C-71
  'a schedule runs once for each due time in the whole mesh': async (lab) => {
    const diary = new Diary(lab);
    for (let n = 0; n < 3; n++) await lab.bot(diary.set());

    await lab.until(8 * lab.tickMs, () => diary.begun.length === 5, 'five runs');

    claimEqual(diary.ticks, upTo(5), 'the due times, in ticks');
    claim(
      diary.begun.every(({ attempt, dueMs }) => attempt === 1 && dueMs % lab.tickMs === 0),
      'a run was no first attempt at its time',
    );
    claimEqual(new Set(diary.begun.map(({ by }) => by)).size, 1, 'how many replicas ran it');
  },

  'a due time goes by unseen before the first start': async (lab) => {
    const diary = new Diary(lab);
    const startedMs = lab.mesh.clock.wallMs();
    await lab.bot(diary.set());

    await lab.until(3 * lab.tickMs, () => diary.begun.length === 1, 'the first run');

    claim(diary.dues[0]! > startedMs, 'what was due before the first start was run');
  },

  // C-71
  'a job longer than the time between two due times never overlaps with itself': async (lab) => {
    const diary = new Diary(lab);
    for (let n = 0; n < 3; n++) await lab.bot(diary.set((_job, self) => self.sleep(2.5 * lab.tickMs)));

    await lab.until(12 * lab.tickMs, () => diary.ended.length === 3, 'three runs');

    claimEqual(diary.mostAtOnce, 1, 'runs at once');
    claimRising(diary.dues.slice(0, 3), 'due times');
  },

  // C-71
  'a crash mid-run gives one retry, no second one, and the next due time goes on': async (lab) => {
    const diary = new Diary(lab);
    let isHanging = true;
    const set = diary.set((_job, self) => (isHanging ? self.hang() : undefined));
    for (let n = 0; n < 3; n++) await lab.bot(set);
    await lab.until(3 * lab.tickMs, () => diary.begun.length === 1, 'the first run');

    diary.begun[0]!.by.crash();
    await lab.until(lab.takenOverMs, () => diary.begun.length === 2, 'the second run');
    isHanging = false;
    diary.begun[1]!.by.crash();
    await lab.until(lab.takenOverMs + 2 * lab.tickMs, () => diary.begun.length >= 4, 'runs after that');

    const [first, second, third, fourth] = diary.begun;
    claimEqual([first!.attempt, second!.attempt], [1, 2], 'attempts at the due time that hung');
    claimEqual(second!.dueMs, first!.dueMs, 'the due time of the second run');
    claimEqual([third!.attempt, fourth!.attempt], [1, 1], 'attempts after that');
    claimRising([second!.dueMs, third!.dueMs, fourth!.dueMs], 'due times');
    claim(
      lab.log.some((line) => line.includes('schedule tick') && line.includes('given up')),
      'nobody told of the loss',
    );
  },

  // C-80
  'a job that throws is told of, and does not retire its schedule': async (lab) => {
    const diary = new Diary(lab);
    const set = diary.set(() => {
      if (diary.begun.length < 3) throw new Error(`failure ${diary.begun.length}`);
    });
    for (let n = 0; n < 2; n++) await lab.bot(set);

    await lab.until(8 * lab.tickMs, () => diary.begun.length === 4, 'four runs');

    claimEqual(diary.ticks, upTo(4), 'the due times, in ticks');
    claimEqual(
      lab.errors.map((error) => (error as Error).message),
      ['failure 1', 'failure 2'],
      'what onError heard of',
    );
  },

  'a leader that stops ends its job, and its successor neither repeats nor skips a due time': async (lab) => {
    const diary = new Diary(lab);
    const set = diary.set((_job, self) => self.sleep(lab.tickMs / 4));
    const bots = [await lab.bot(set), await lab.bot(set), await lab.bot(set)];
    for (let runs = 2; runs <= 4; runs += 2) {
      await lab.until(4 * lab.tickMs, () => diary.begun.length === runs, `run ${runs}`);

      const { by } = diary.begun.at(-1)!;
      await by.bot.stop({ drainMs: 4 * lab.tickMs });
      claimEqual(diary.ended.length, runs, 'runs that ended before the stop');
    }
    await lab.until(4 * lab.tickMs, () => diary.ended.length === 6, 'six runs');

    claimEqual(diary.ticks.slice(0, 6), upTo(6), 'the due times, in ticks');
    claim(
      diary.begun.every(({ attempt }) => attempt === 1),
      'a due time was run again',
    );
    claimEqual(new Set(diary.begun.slice(0, 6).map(({ by }) => by)).size, bots.length, 'how many replicas ran it');
  },

  'a job that a stop cuts off is told so, and made once more elsewhere': async (lab) => {
    const diary = new Diary(lab);
    const reasons: unknown[] = [];
    const set = diary.set((job, self) => {
      if (job.attempt === 2) return undefined;
      job.signal.addEventListener('abort', () => reasons.push(job.signal.reason));
      return self.hang();
    });
    for (let n = 0; n < 2; n++) await lab.bot(set);
    await lab.until(3 * lab.tickMs, () => diary.begun.length === 1, 'the first run');

    await diary.begun[0]!.by.bot.stop({ drainMs: 1 });
    await lab.until(lab.tickMs, () => diary.ended.length === 1, 'the second attempt');

    claimEqual(
      diary.begun.slice(0, 2).map(({ attempt }) => attempt),
      [1, 2],
      'attempts',
    );
    claimEqual(diary.begun[1]!.dueMs, diary.begun[0]!.dueMs, 'the due time of the second attempt');
    claimEqual((reasons[0] as { code?: string } | undefined)?.code, 'lease-lost', 'what the job was told');
  },

  // C-36
  'a leader that froze past its lease is superseded; nothing bursts when it wakes, and nothing is run twice': async (
    lab,
  ) => {
    const diary = new Diary(lab);
    for (let n = 0; n < 2; n++) await lab.bot(diary.set());
    await lab.until(4 * lab.tickMs, () => diary.begun.length === 2, 'two runs');
    const { by } = diary.begun[0]!;

    by.freeze();
    await lab.sleep(10 * lab.tickMs);
    const before = diary.begun.length;
    by.thaw();
    await lab.sleep(2.5 * lab.tickMs);

    claim(before >= 4, 'nobody took the schedule over');
    claim(diary.begun.length - before <= 3, `${diary.begun.length - before} runs within three ticks of the awakening`);
    claimRising(diary.dues, 'due times');
    claimEqual(new Set(diary.begun.map((ran) => ran.by)).size, 2, 'how many replicas ran it');
  },

  // C-36
  'where nobody took over, what was missed is run once': async (lab) => {
    const diary = new Diary(lab);
    const only = await lab.bot(diary.set());
    await lab.until(3 * lab.tickMs, () => diary.begun.length === 1, 'the first run');

    only.freeze();
    await lab.sleep(20.5 * lab.tickMs);
    only.thaw();
    await lab.until(3 * lab.leaseMs, () => diary.begun.length === 3, 'two runs after the awakening');

    claim(diary.ticks[1]! >= 19, `the missed due time that was run is ${diary.ticks[1]}`);
    claimRising(diary.dues, 'due times');
  },

  'missed due times are all made up for where that is wanted, in order and one by one': async (lab) => {
    const diary = new Diary(lab);
    const set = diary.set((_job, self) => self.sleep(1), { missed: 'all' });
    const first = await lab.bot(set);
    await lab.until(3 * lab.tickMs, () => diary.ended.length === 1, 'the first run');
    await first.bot.stop();
    await lab.sleep(5 * lab.tickMs);

    await lab.bot(set);
    await lab.until(4 * lab.tickMs, () => diary.ended.length >= 7, 'the missed runs');

    claimEqual(diary.ticks.slice(0, 7), upTo(7), 'the due times, in ticks');
    claimEqual(diary.mostAtOnce, 1, 'runs at once');
  },

  'a job for a chat runs in that chat’s turn, once for each due time, behind what waits there': async (lab) => {
    const begun: string[] = [];
    const set = (bot: Bot, self: LabBot): void => {
      bot.schedule({ everyMs: lab.tickMs }, 'remind', (ctx) => ctx.reply(`due ${ctx.job.dueMs}`), { chat: 'ana' });
      bot.use(async (ctx) => {
        begun.push(ctx.message.text);
        await self.sleep(2 * lab.tickMs);
        await ctx.reply(ctx.message.text);
      });
    };
    const bots = [await lab.bot(set), await lab.bot(set), await lab.bot(set)];
    await bots[1]!.provider.receive({ chat: 'ana', id: '1', text: 'slow' });

    await lab.until(8 * lab.tickMs, () => lab.textsTo('ana').length >= 4, 'four replies');

    const [first, ...rest] = lab.textsTo('ana');
    claimEqual([first, begun], ['slow', ['slow']], 'the first reply, and what the handler of messages saw');
    claimRising(
      rest.map((text) => Number(text.slice(4))),
      'due times',
    );
  },

  'a job that is run again puts nothing into a chat twice': async (lab) => {
    const diary = new Diary(lab);
    const set = (bot: Bot, self: LabBot): void => {
      diary.set(async (job) => {
        await job.inChat('ana', { n: 1 });
        await job.inChat('ana', { n: 2 }, { id: 'second' });
        await job.inChat('ben', { n: 3 });
        if (job.attempt === 1 && diary.begun.length === 1) await self.hang();
      })(bot, self);
      bot.job('tick', (ctx) => ctx.reply(`${ctx.job.dueMs} ${JSON.stringify(ctx.job.data)}`));
    };
    for (let n = 0; n < 2; n++) await lab.bot(set);
    await lab.until(3 * lab.tickMs, () => lab.sent.length === 3, 'the jobs of the first run');

    diary.begun[0]!.by.crash();
    await lab.until(lab.takenOverMs, () => diary.ended.length > 0, 'the second run');
    await lab.sleep(lab.tickMs / 4);

    const dueMs = diary.dues[0]!;
    const ofFirst = (chat: string): string[] => lab.textsTo(chat).filter((text) => text.startsWith(`${dueMs} `));
    claimEqual(diary.begun[1]!.attempt, 2, 'the attempt of the second run');
    claimEqual(ofFirst('ana'), [`${dueMs} {"n":1}`, `${dueMs} {"n":2}`], 'what reached ana');
    claimEqual(ofFirst('ben'), [`${dueMs} {"n":3}`], 'what reached ben');
  },
};
