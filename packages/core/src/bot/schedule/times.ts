import { ConfigError } from '../../errors.js';

/** When a schedule is due: moments in milliseconds since 1970, the same on every replica. */
export interface Times {
  /** Names them: a schedule whose times were changed begins anew. */
  readonly text: string;
  /** The first after `afterMs`. Undefined when there is none. */
  next(afterMs: number): number | undefined;
  /** The last up to `atMs`, that moment included. Undefined when there is none. */
  latest(atMs: number): number | undefined;
}

/** The multiples of `everyMs` since 1970: replicas need not agree on a beginning. */
export function everyTimes(everyMs: number): Times {
  return {
    text: `every ${everyMs} ms`,
    next: (afterMs) => (Math.floor(afterMs / everyMs) + 1) * everyMs,
    latest: (atMs) => Math.floor(atMs / everyMs) * everyMs,
  };
}

/** What is used of the package croner. */
export interface CronPackage {
  readonly Cron: new (
    pattern: string,
    options: { timezone: string; paused: true },
  ) => {
    /** Both leave the moment itself out, and know no milliseconds. */
    nextRun(after: Date): Date | null;
    previousRuns(count: number, before: Date): Date[];
  };
}

/**
 * The package that reads cron patterns, which nobody needs who has none.
 *
 * @throws ConfigError when it is not installed
 */
export async function loadCron(load: () => Promise<CronPackage> = () => import('croner')): Promise<CronPackage> {
  try {
    return await load();
  } catch (cause) {
    throw new ConfigError(
      "bot.schedule(): cron patterns are read by the package 'croner', which could not be loaded. " +
        'Run npm install croner, or give { everyMs }.',
      'config',
      { cause },
    );
  }
}

/** @throws ConfigError when the pattern or the time zone is none */
export function cronTimes({ Cron }: CronPackage, pattern: string, timeZone: string, where: string): Times {
  if (!isTimeZone(timeZone)) {
    throw new ConfigError(`${where}: time zone '${timeZone}' is not known here. Give a name such as 'Europe/Paris'.`);
  }
  try {
    const cron = new Cron(pattern, { timezone: timeZone, paused: true });
    return {
      text: `${pattern} in ${timeZone}`,
      next: (afterMs) => cron.nextRun(new Date(afterMs))?.getTime(),
      latest: (atMs) => cron.previousRuns(1, new Date(Math.floor(atMs / 1000) * 1000 + 1000))[0]?.getTime(),
    };
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : 'it is refused';
    throw new ConfigError(`${where}: '${pattern}' is no cron pattern: ${why}`, 'config', { cause });
  }
}

function isTimeZone(name: string): boolean {
  try {
    return new Intl.DateTimeFormat('en', { timeZone: name }).resolvedOptions().timeZone !== '';
  } catch {
    return false;
  }
}
