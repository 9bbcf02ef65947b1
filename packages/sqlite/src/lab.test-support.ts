// For the tests of this package: files in a folder of their own, and what can happen to them.
import { copyFileSync, existsSync, mkdtempSync, renameSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Push } from '@botmesh/core/spi';
import { findDriver } from './driver.js';
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
  const copy = `${file}.copy-${Math.random().toString(36).slice(2)}`;
  await writeBack(file);
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

async function writeBack(file: string): Promise<void> {
  const { open } = await findDriver();
  const database = open(file);
  database.exec('PRAGMA wal_checkpoint(TRUNCATE)');
  database.close();
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
