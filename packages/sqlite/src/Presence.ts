import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, rmdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { hasEnded, type ProcessIdentity } from './processes.js';

/** The longest path a Unix socket may have everywhere. */
const LONGEST_SOCKET_PATH = 100;

/** Nobody takes this long to write a note. */
const WRITING_MS = 10_000;

/** What a replica's note says: whose it is, and whether that one has joined. */
interface Note extends ProcessIdentity {
  readonly hasJoined: boolean;
}

/** What a look at a note finds: nothing whole in it, or that it cannot be read here and now. */
type Found = Note | 'torn' | 'unknown';

/**
 * A folder beside the database in which every replica has a note of its own. It tells whether somebody else is at work on
 * this path when the file turns out to be new, put back or from before a reboot; and whose socket is left over.
 */
export class Presence {
  readonly folder: string;
  readonly #own: ProcessIdentity;

  constructor(path: string, own: ProcessIdentity) {
    this.folder = `${path}-replicas`;
    this.#own = own;
  }

  /** Where the replica of `instance` listens. */
  socketOf(instance: string): string {
    return this.#socketOf(short(instance));
  }

  /** Written before it listens, as a socket without a note is left over, and again when it has joined. */
  write(instance: string, hasJoined: boolean): void {
    const note: Note = { ...this.#own, hasJoined };
    const path = this.#noteOf(short(instance));
    makeFolder(this.folder);
    try {
      writeFileSync(path, JSON.stringify(note));
    } catch (error) {
      rmSync(path, { force: true });
      throw error;
    }
  }

  /** That of one that has joined. */
  note(instance: string): void {
    this.write(instance, true);
  }

  isNoted(instance: string): boolean {
    return existsSync(this.#noteOf(short(instance)));
  }

  forgetSeat(instance: string): void {
    rmSync(this.#noteOf(short(instance)), { force: true });
  }

  forget(instance: string): void {
    this.#forget(short(instance));
    try {
      rmdirSync(this.folder);
    } catch {
      // Others are in it.
    }
  }

  /** Whether a replica that joined on this path may be alive. What is left of those who surely are not is cleared away. */
  hasAny(): boolean {
    const names = this.#names('.seat');
    // For want of file descriptors, or of rights, say: who knows.
    if (names === undefined) return true;
    let isAnyAlive = false;
    for (const name of names) {
      const found = this.#read(name);
      if (this.#isLeft(name, found)) this.#forget(name);
      else if (typeof found === 'string' || found.hasJoined) isAnyAlive = true;
    }
    return isAnyAlive;
  }

  #isLeft(name: string, found: Found): boolean {
    if (found === 'unknown') return false;
    return found === 'torn' ? this.#isOld(name) : hasEnded(found, this.#own);
  }

  /** Clears away what processes have left that ended without a word. Never rejects. */
  async sweep(): Promise<void> {
    try {
      this.hasAny();
      // Before the notes: a note is written before its socket is made.
      const sockets = this.#names('.sock') ?? [];
      const noted = this.#names('.seat');
      if (noted === undefined) return;
      for (const name of sockets) if (!noted.includes(name)) this.#forget(name);
      await Promise.all(noted.map((name) => this.#sweepForeign(name)));
    } catch {
      // The next replica to join tries again.
    }
  }

  /** A process of another container cannot be seen. Its socket can: nobody listens at it any more. */
  async #sweepForeign(name: string): Promise<void> {
    const note = this.#read(name);
    if (typeof note === 'string' || note.namespace === this.#own.namespace) return;
    if (await isRefused(this.#socketOf(name))) this.#forget(name);
  }

  #forget(name: string): void {
    rmSync(this.#socketOf(name), { force: true });
    rmSync(this.#noteOf(name), { force: true });
  }

  #socketOf(name: string): string {
    const beside = join(this.folder, `${name}.sock`);
    if (beside.length <= LONGEST_SOCKET_PATH) return beside;
    return join(tmpdir(), `botmesh-${short(this.folder)}-${name}.sock`);
  }

  #noteOf(name: string): string {
    return join(this.folder, `${name}.seat`);
  }

  /** Undefined when the folder is there and cannot be read. */
  #names(end: string): string[] | undefined {
    try {
      return readdirSync(this.folder)
        .filter((file) => file.endsWith(end))
        .map((file) => file.slice(0, -end.length));
    } catch (error) {
      return isGone(error) ? [] : undefined;
    }
  }

  /** One that cannot be read may be being written at this moment; later, its process died in the midst of that. */
  #isOld(name: string): boolean {
    const found = statSync(this.#noteOf(name), { throwIfNoEntry: false });
    return found === undefined || Math.abs(Date.now() - found.mtimeMs) > WRITING_MS;
  }

  #read(name: string): Found {
    let text: string;
    try {
      text = readFileSync(this.#noteOf(name), 'utf8');
    } catch (error) {
      return isGone(error) ? 'torn' : 'unknown';
    }
    try {
      return JSON.parse(text) as Note;
    } catch {
      return 'torn';
    }
  }
}

function isGone(error: unknown): boolean {
  return (error as NodeJS.ErrnoException).code === 'ENOENT';
}

/** Not its parents: a folder that is missing is for its owner to make. */
function makeFolder(folder: string): void {
  try {
    mkdirSync(folder);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  }
}

function isRefused(address: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(address);
    const end = (answer: boolean): void => {
      socket.destroy();
      resolve(answer);
    };
    socket.once('connect', () => end(false));
    socket.once('error', (error: NodeJS.ErrnoException) => end(error.code === 'ECONNREFUSED'));
  });
}

function short(text: string): string {
  return createHash('sha256').update(text).digest('hex').slice(0, 16);
}
