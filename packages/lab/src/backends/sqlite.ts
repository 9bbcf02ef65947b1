import { execFileSync } from 'node:child_process';
import {
  closeSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  renameSync,
  rmSync,
  writeSync,
} from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { MovingClock, whyNoMovingClock } from '../moving-clock.js';
import { nowMs } from '../now.js';
import { PLACE } from '../place.js';
import { pause, until } from '../until.js';
import type { Backend, Site, SiteFault } from './backend.js';
import { clockStepMs } from './clock-steps.js';

const require = createRequire(import.meta.url);

export const sqlite: Backend = {
  name: 'sqlite',
  client: 'sqlite',
  whyNot() {
    try {
      library();
      return undefined;
    } catch {
      return 'There is no better-sqlite3 here, and this Node has no node:sqlite.';
    }
  },
  async open({ harm }) {
    const file = new TestFile();
    const clock = harm === 'clock' && whyNoMovingClock() === undefined ? new MovingClock() : undefined;
    return {
      ...(clock === undefined ? {} : { environment: clock.environment }),
      faults: [
        locked(file),
        ...(file.isSmall ? [diskFull(file)] : []),
        ...(clock === undefined ? losing(file) : [clockStep(clock)]),
      ],
      way: async () => ({ connect: { path: file.path }, proxies: [] }),
      async [Symbol.asyncDispose]() {
        file[Symbol.dispose]();
        clock?.[Symbol.dispose]();
      },
    } satisfies Site;
  },
};

interface Database {
  exec(sql: string): unknown;
  close(): void;
}

function library(): new (path: string) => Database {
  try {
    return require('better-sqlite3') as new (
      path: string,
    ) => Database;
  } catch {
    return (require('node:sqlite') as { DatabaseSync: new (path: string) => Database }).DatabaseSync;
  }
}

const ENDS = ['', '-wal'];
const SIZE_MB = 64;
const LOCK_MS = 30_000;

/** A database in a folder of its own, on a small disk where one can be mounted. */
class TestFile implements Disposable {
  readonly folder = mkdtempSync(join(PLACE, 'botmesh-sqlite-'));
  readonly isSmall: boolean;
  readonly #disk = join(this.folder, 'disk');

  constructor() {
    mkdirSync(this.#disk);
    this.isSmall = tried('mount', '-t', 'tmpfs', '-o', `size=${SIZE_MB}m`, 'tmpfs', this.#disk);
  }

  get path(): string {
    return join(this.#disk, 'mesh.db');
  }

  /** Nobody writes during `act`. Gives false, and does nothing, where there is no file now. */
  async locked(act: () => Promise<void> | void): Promise<boolean> {
    // To open it would make one.
    if (!existsSync(this.path)) return false;
    const database = new (library())(this.path);
    try {
      // To wait in the library would keep this process from waking a frozen replica that has the lock.
      database.exec('PRAGMA busy_timeout = 20');
      await until('nobody else writes', () => database.exec('BEGIN IMMEDIATE') !== false, LOCK_MS);
      await act();
      database.exec('ROLLBACK');
      return true;
    } finally {
      database.close();
    }
  }

  copy(): void {
    for (const end of ENDS) {
      rmSync(this.#copy(end), { force: true });
      if (existsSync(`${this.path}${end}`)) copyFileSync(`${this.path}${end}`, this.#copy(end));
    }
  }

  /** As an operator would: by renaming, under whoever has it open. */
  putBack(): void {
    const there = ENDS.filter((end) => existsSync(this.#copy(end)));
    for (const end of there) copyFileSync(this.#copy(end), `${this.path}.back${end}`);
    for (const end of ['-shm', '-wal']) rmSync(`${this.path}${end}`, { force: true });
    // The file last: from then on it is another one, and has its log.
    for (const end of there.reverse()) renameSync(`${this.path}.back${end}`, `${this.path}${end}`);
  }

  remove(): void {
    for (const end of ['', '-shm', '-wal']) rmSync(`${this.path}${end}`, { force: true });
  }

  #copy(end: string): string {
    return join(this.folder, `copy${end}`);
  }

  /** Leaves no room. */
  fill(): void {
    const ballast = openSync(join(this.#disk, 'ballast'), 'w');
    const page = Buffer.alloc(4096);
    try {
      while (writeSync(ballast, page) > 0);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error;
    } finally {
      closeSync(ballast);
    }
  }

  empty(): void {
    rmSync(join(this.#disk, 'ballast'), { force: true });
  }

  [Symbol.dispose](): void {
    if (this.isSmall) tried('umount', '--lazy', this.#disk);
    rmSync(this.folder, { recursive: true, force: true });
  }
}

function tried(command: string, ...args: string[]): boolean {
  try {
    execFileSync(command, args, { stdio: 'ignore' });
    return true;
  } catch {
    return false;
  }
}

function locked(file: TestFile): SiteFault {
  return {
    kind: 'file locked',
    async strike({ spanMs }) {
      await file.locked(() => pause(spanMs / 2));
    },
  };
}

function diskFull(file: TestFile): SiteFault {
  return {
    kind: 'disk full',
    async strike({ spanMs }) {
      file.fill();
      await pause(spanMs);
      file.empty();
    },
  };
}

function losing(file: TestFile): SiteFault[] {
  return [
    {
      kind: 'older data',
      async strike({ lostData, spanMs }) {
        const savedAt = nowMs();
        if (!(await file.locked(() => file.copy()))) return;
        await pause(spanMs / 2);
        file.putBack();
        lostData(savedAt);
      },
    },
    {
      kind: 'data wiped',
      async strike({ lostData }) {
        file.remove();
        lostData(0);
      },
    },
  ];
}

function clockStep(clock: MovingClock): SiteFault {
  return {
    kind: 'clock step',
    async strike({ random }) {
      clock.move(clockStepMs(random));
    },
  };
}
