// For the tests of this package: files in a folder of their own, and what can happen to them.
import { copyFileSync, existsSync, mkdtempSync, renameSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Clock, Push } from '@botmesh/core/spi';
import { findDriver, type Open } from './driver.js';
import type { HostTime } from './SqliteStore.js';
import type { Wire } from './Wire.js';

export interface Folder {
  readonly path: string;
  readonly file: string;
  remove(): void;
}

/** A disk in memory where there is one: hundreds of files are made, and none needs to outlive its test. */
const PLACE = existsSync('/dev/shm') ? '/dev/shm' : tmpdir();

export function makeFolder(): Folder {
  const path = mkdtempSync(join(PLACE, 'botmesh-sqlite-'));
  return { path, file: join(path, 'mesh.db'), remove: () => rmSync(path, { recursive: true, force: true }) };
}

/** A copy of the database as it is now; calling the result puts it in the place of what is there by then. */
export async function copyOf(file: string): Promise<() => void> {
  const { open } = await findDriver();
  return copyNow(file, open);
}

/** As `copyOf`, done when it returns: nobody of this process can write meanwhile. */
export function copyNow(file: string, open: Open): () => void {
  const copy = `${file}.copy-${Math.random().toString(36).slice(2)}`;
  writeBack(file, open);
  copyFileSync(file, copy);
  return () => {
    const fresh = `${copy}-in-place`;
    copyFileSync(copy, fresh);
    removeDatabase(file);
    renameSync(fresh, file);
  };
}

export function removeDatabase(file: string): void {
  for (const end of ['', '-wal', '-shm']) rmSync(`${file}${end}`, { force: true });
}

function writeBack(file: string, open: Open): void {
  const database = open(file);
  try {
    // Another process may be reading: the log can be emptied when it has read.
    database.exec('PRAGMA busy_timeout = 5000');
    const { busy } = database.prepare('PRAGMA wal_checkpoint(TRUNCATE)').get() ?? {};
    if (busy !== 0) throw new Error(`${file} was in use for too long to be copied.`);
  } finally {
    database.close();
  }
}

/** Pushes between stores of this process, without the time a socket takes. */
export class Bus {
  readonly #listeners = new Map<string, (push: Push) => void>();

  readonly makeWire = (): Wire => {
    const own: string[] = [];
    return {
      listen: async (instance, onPush) => {
        own.push(instance);
        this.#listeners.set(instance, onPush);
      },
      send: (instance, push) => this.#listeners.get(instance)?.(push),
      close: () => {
        for (const instance of own.splice(0)) this.#listeners.delete(instance);
      },
    };
  };
}

/** A host's two clocks, moved together. */
export function hostClock(clock: Clock): { time: () => HostTime; step: (ms: number) => void } {
  let stepMs = 0;
  return {
    time: () => ({ nowMs: Math.round(clock.monotonicMs() + stepMs), wallMs: Math.round(clock.wallMs() + stepMs) }),
    step: (ms) => {
      stepMs += ms;
    },
  };
}
