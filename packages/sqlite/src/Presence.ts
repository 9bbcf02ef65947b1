import { createHash } from 'node:crypto';
import { mkdirSync, readdirSync, readFileSync, rmdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { hasEnded, type ProcessIdentity } from './processes.js';

/** The longest path a Unix socket may have everywhere. */
const LONGEST_SOCKET_PATH = 100;

/**
 * A folder beside the database in which every joined replica has a note of its own. It tells whether somebody else is at
 * work on this path when the file turns out to be new, put back or from before a reboot.
 */
export class Presence {
  readonly folder: string;
  readonly #own: ProcessIdentity;

  constructor(path: string, own: ProcessIdentity) {
    this.folder = `${resolve(path)}-replicas`;
    this.#own = own;
  }

  /** Where the replica of `instance` listens. */
  socketOf(instance: string): string {
    const name = `${short(instance)}.sock`;
    const beside = join(this.folder, name);
    if (beside.length <= LONGEST_SOCKET_PATH) return beside;
    return join(tmpdir(), `botmesh-${short(this.folder)}-${name}`);
  }

  make(): void {
    mkdirSync(this.folder, { recursive: true });
  }

  note(instance: string): void {
    this.make();
    writeFileSync(this.#noteOf(instance), JSON.stringify(this.#own));
  }

  forgetSeat(instance: string): void {
    rmSync(this.#noteOf(instance), { force: true });
  }

  forget(instance: string): void {
    this.forgetSeat(instance);
    rmSync(this.socketOf(instance), { force: true });
    try {
      rmdirSync(this.folder);
    } catch {
      // Others are in it.
    }
  }

  /** Whether a replica that joined on this path may be alive. Notes of those who surely are not are cleared away. */
  hasAny(): boolean {
    let isAnyAlive = false;
    for (const name of this.#notes()) {
      const note = join(this.folder, name);
      if (this.#mayLive(note)) isAnyAlive = true;
      else rmSync(note, { force: true });
    }
    return isAnyAlive;
  }

  #noteOf(instance: string): string {
    return join(this.folder, `${short(instance)}.seat`);
  }

  #notes(): string[] {
    try {
      return readdirSync(this.folder).filter((name) => name.endsWith('.seat'));
    } catch {
      return [];
    }
  }

  #mayLive(note: string): boolean {
    try {
      return !hasEnded(JSON.parse(readFileSync(note, 'utf8')) as ProcessIdentity, this.#own);
    } catch (error) {
      // Gone meanwhile, or being written at this moment.
      return (error as NodeJS.ErrnoException).code !== 'ENOENT';
    }
  }
}

function short(text: string): string {
  return createHash('sha256').update(text).digest('hex').slice(0, 16);
}
