import { ConfigError, checkOptionNames, shown } from '../../errors.js';
import { RESERVED } from '../../pipeline/reserved.js';
import type { Job } from './Job.js';
import type { Missed } from './plan.js';
import { type Plan, Schedule, type ScheduleSetup } from './Schedule.js';
import { type CronPackage, cronTimes, everyTimes, loadCron, type Times } from './times.js';

/** When a job is due: a cron pattern, or every so many milliseconds, counted from the beginning of 1970. */
export type When = string | { readonly everyMs: number };

export interface ScheduleOptions {
  /** The time zone of a cron pattern, by its IANA name. Default `UTC`, whatever the host's. */
  timeZone?: string;
  /**
   * What becomes of due times at which the job could not run, because no replica was there or its last run took too long:
   * `last` (the default) runs the newest of them, `skip` none that is a minute late or more, `all` each of the newest 100
   * in order.
   */
  missed?: Missed;
  /** How long one run may take, in milliseconds, before its signal is aborted and it counts as over. Default: no limit. */
  maxRunMs?: number;
  /** The chat in whose turn the job runs. Without it, it runs beside all chats. */
  chat?: string;
}

const NAMES: { [Name in keyof Required<ScheduleOptions>]: true } = {
  timeZone: true,
  missed: true,
  maxRunMs: true,
  chat: true,
};

const SHORTEST_MS = 100;
const LONGEST_RUN_MS = 2 ** 31 - 1;

interface Entry {
  readonly when: When;
  readonly name: string;
  readonly options: ScheduleOptions;
  readonly run: (job: Job) => unknown;
}

/** All schedules of a Bot. */
export class Schedules {
  readonly #entries = new Map<string, Entry>();
  #schedules: Schedule[] | undefined;
  /** Two for each schedule: many listeners on one signal are a leak to Node. */
  #running: readonly { stop: AbortController; abort: AbortController }[] | undefined;

  /** @throws ConfigError naming what cannot work */
  add(when: When, name: string, options: ScheduleOptions, run: (job: Job) => unknown): void {
    check(when, name, options, run);
    if (this.#schedules !== undefined) {
      throw new ConfigError(`bot.schedule('${name}'): the bot is started. Register schedules before start().`);
    }
    if (this.#entries.has(name)) {
      throw new ConfigError(`bot.schedule('${name}'): there is a schedule of that name already. Give each its own.`);
    }
    this.#entries.set(name, { when, name, options, run });
  }

  /**
   * Reads the patterns.
   *
   * @throws ConfigError when one cannot be read, or the package for it is not installed
   */
  async prepare(setup: ScheduleSetup, load?: () => Promise<CronPackage>): Promise<void> {
    const entries = [...this.#entries.values()];
    const cron = entries.some(({ when }) => typeof when === 'string') ? await loadCron(load) : undefined;
    this.#schedules = entries.map((entry) => new Schedule(setup, planOf(entry, cron)));
  }

  /** Begins to campaign. */
  start(): void {
    if (this.#running !== undefined) return;
    this.#running = (this.#schedules ?? []).map((schedule) => {
      const running = { stop: new AbortController(), abort: new AbortController() };
      void schedule.serve(running.stop.signal, running.abort.signal);
      return running;
    });
  }

  /** Nothing new begins. What runs goes on to its end, unless `reason` says why it may not. */
  stop(reason?: Error): void {
    for (const { stop, abort } of this.#running ?? []) {
      stop.abort();
      if (reason !== undefined) abort.abort(reason);
    }
    this.#running = undefined;
  }
}

function planOf({ when, name, options, run }: Entry, cron: CronPackage | undefined): Plan {
  const { missed = 'last', maxRunMs } = options;
  return { name, times: timesOf(when, name, options, cron), missed, maxRunMs, run };
}

function timesOf(when: When, name: string, { timeZone }: ScheduleOptions, cron: CronPackage | undefined): Times {
  if (typeof when !== 'string') return everyTimes(when.everyMs);
  return cronTimes(cron!, when, timeZone ?? 'UTC', `bot.schedule('${name}')`);
}

function check(when: unknown, name: unknown, options: ScheduleOptions, run: unknown): void {
  if (typeof name !== 'string' || name === '') {
    throw new ConfigError(
      `bot.schedule(): expected a name second, found ${name === '' ? 'an empty one' : typeof name}.`,
    );
  }
  const where = `bot.schedule('${name}')`;
  if (name.startsWith(RESERVED)) {
    throw new ConfigError(`${where}: names that begin with '${RESERVED}' are the bot's own. Give another.`);
  }
  if (typeof run !== 'function') throw new ConfigError(`${where}: expected a function third, found ${typeof run}.`);
  checkOptionNames(where, options, NAMES);
  checkWhen(where, when, options);
  const { missed = 'last', maxRunMs = 1, chat, timeZone } = options;
  if (!['last', 'skip', 'all'].includes(missed)) {
    throw new ConfigError(`${where}: missed is ${String(missed)}. Give 'last', 'skip' or 'all'.`);
  }
  if (typeof maxRunMs !== 'number' || !(maxRunMs > 0 && maxRunMs <= LONGEST_RUN_MS)) {
    throw new ConfigError(`${where}: maxRunMs is ${shown(maxRunMs)}. Give a number above 0, or leave it out.`);
  }
  for (const [option, value] of Object.entries({ chat, timeZone })) {
    if (value === undefined || (typeof value === 'string' && value !== '')) continue;
    throw new ConfigError(`${where}: ${option} is no name. Give a text, or leave it out.`);
  }
}

function checkWhen(where: string, when: unknown, { timeZone }: ScheduleOptions): void {
  if (typeof when === 'string') return;
  const everyMs = (when as { everyMs?: unknown } | null | undefined)?.everyMs;
  if (!Number.isSafeInteger(everyMs) || (everyMs as number) < SHORTEST_MS) {
    throw new ConfigError(
      `${where}: expected a cron pattern or { everyMs } with a whole number from ${SHORTEST_MS} up first.`,
    );
  }
  if (timeZone !== undefined) throw new ConfigError(`${where}: a timeZone is for cron patterns. Leave it out.`);
}
