import { ConfigError, CoordinationUnavailableError } from '@botmesh/core/spi';
import type { DriverName } from './driver.js';
import { explain, type Fault, faultOf } from './explain.js';
import { closeQuietly, FilesReplaced, isCurrent, type OpenFile, openFile } from './file.js';

export interface ConnectionOptions {
  /** Absolute, with no link in it: other connections of this process are known by it. */
  readonly path: string;
  readonly driver: DriverName | undefined;
  /** How long the path is left alone after its files were removed or replaced. */
  readonly calmMs: number;
}

/** Of a file that is removed and then replaced, the second act comes this soon after the first. */
export const CALM_MS = 250;

/**
 * By path, those of this process that have the file open. SQLite gives all connections of one process the same index: one
 * that is opened anew while another still has a removed index would get that, and share no lock with other processes.
 */
const OPEN = new Map<string, Set<Connection>>();

/** A full disk leaves the connection sound, and has no room to open another. */
const SOUND: ReadonlySet<Fault> = new Set(['busy', 'full', 'refused']);

/** A few times only: whoever holds the file may be waiting for this core. */
const TRIED_AT_ONCE = 4;

/** A call is done without waiting for anything. Calls that follow each other let the event loop go on this often. */
const UNBROKEN_MS = 10;

/** The file at a path: opened when it is needed, and anew when it was removed, replaced or has failed. */
export class Connection {
  /** How long a call goes on trying while others hold the file. */
  busyLimitMs = 1_000;
  readonly #options: ConnectionOptions;
  #file: OpenFile | undefined;
  #opening: Promise<OpenFile> | undefined;
  #untouchedUntilMs = 0;
  /** When the first call of this turn of the event loop began. */
  #unbrokenSinceMs: number | undefined;
  /** Counts closings: what was being opened meanwhile is not kept. */
  #closings = 0;

  constructor(options: ConnectionOptions) {
    this.#options = options;
  }

  /** As it is open now, if it is. Says nothing about whether it is still what is at the path. */
  get file(): OpenFile | undefined {
    return this.#file;
  }

  /**
   * Makes the call with the open file, again while the file is busy. Waits between attempts, not in them: the event loop
   * goes on while others write.
   *
   * @throws CoordinationUnavailableError or ConfigError that name the path, what is wrong and what to do
   */
  async use<T>(call: (file: OpenFile) => T): Promise<T> {
    const startedMs = performance.now();
    const closings = this.#closings;
    let replacements = 0;
    let failures = 0;
    if (this.#isBreathDue(startedMs)) await breath();
    for (;;) {
      if (closings !== this.#closings) throw closed(this.#options.path);
      let file: OpenFile | undefined;
      try {
        file = this.#file ?? (await this.#open());
        // Dropped while this waited: another one is opened.
        if (file === this.#file) return call(file);
      } catch (error) {
        const isLate = performance.now() - startedMs > this.busyLimitMs;
        const next = this.#afterFailure(file, error);
        if (next === 'give up' || isLate) throw explain(this.#options.path, error);
        if (next === 'open anew' && ++replacements > 1) throw explain(this.#options.path, error);
        if (next === 'wait') await pauseAfter(++failures);
      }
    }
  }

  /** Ends what is under way. A later use opens the file again. */
  close(): void {
    this.#closings += 1;
    this.#drop();
  }

  /** Else a caller that awaits call after call would hold up timers, sockets, and its own replica's heartbeats. */
  #isBreathDue(nowMs: number): boolean {
    // Whoever moves the clock expects that a call takes no time.
    if (this.#options.calmMs === 0) return false;
    if (this.#unbrokenSinceMs !== undefined) return nowMs - this.#unbrokenSinceMs > UNBROKEN_MS;
    this.#unbrokenSinceMs = nowMs;
    setImmediate(() => {
      this.#unbrokenSinceMs = undefined;
    });
    return false;
  }

  #afterFailure(file: OpenFile | undefined, error: unknown): 'wait' | 'open anew' | 'give up' {
    const fault = faultOf(error);
    // Whoever locks a file that is no longer at the path may do so for ever.
    const isGone = file !== undefined && !isCurrent(this.#options.path, file);
    if (isGone) this.#leaveAlone();
    const isSound = !isGone && SOUND.has(fault);
    if (!isSound && file !== undefined && file === this.#file) this.#dropAll();
    if (isGone || error instanceof FilesReplaced) return 'open anew';
    return fault === 'busy' ? 'wait' : 'give up';
  }

  #leaveAlone(): void {
    const { calmMs } = this.#options;
    for (const each of [this, ...this.#siblings]) each.#untouchedUntilMs = performance.now() + calmMs;
  }

  /** All of this process. Between two calls none of them is in use. */
  #dropAll(): void {
    for (const each of [this, ...this.#siblings]) each.#drop();
  }

  #drop(): void {
    const file = this.#file;
    if (file === undefined) return;
    this.#file = undefined;
    this.#siblings.delete(this);
    if (this.#siblings.size === 0) OPEN.delete(this.#options.path);
    closeQuietly(file.database);
  }

  #keep(file: OpenFile): void {
    this.#file = file;
    OPEN.set(this.#options.path, this.#siblings.add(this));
  }

  get #siblings(): Set<Connection> {
    return OPEN.get(this.#options.path) ?? new Set();
  }

  #open(): Promise<OpenFile> {
    this.#opening ??= this.#openAnew().finally(() => {
      this.#opening = undefined;
    });
    return this.#opening;
  }

  #makeWay(library: DriverName): void {
    const { path } = this.#options;
    const files = [...this.#siblings].map((each) => each.#file).filter((file) => file !== undefined);
    if (files.some((file) => !isCurrent(path, file))) this.#dropAll();
    else if (files.some((file) => file.library !== library)) throw twoLibraries(path, library);
  }

  async #openAnew(): Promise<OpenFile> {
    const { path, driver } = this.#options;
    const closings = this.#closings;
    const calmMs = this.#untouchedUntilMs - performance.now();
    if (calmMs > 0) await pause(calmMs);
    const file = await openFile(path, driver, (library) => this.#makeWay(library));
    if ([...this.#siblings].some((each) => each.#file?.place !== file.place)) {
      closeQuietly(file.database);
      this.#dropAll();
      throw new FilesReplaced(path);
    }
    if (closings === this.#closings) this.#keep(file);
    else closeQuietly(file.database);
    return file;
  }
}

/** Closing a file in one library lets go of the locks that the other one has on it: that is how POSIX locks are. */
function twoLibraries(path: string, library: DriverName): ConfigError {
  const message = `SQLite: ${path} is open in this process with another library than ${library}. Pass the same driver to all.`;
  return new ConfigError(message);
}

function closed(path: string): CoordinationUnavailableError {
  return new CoordinationUnavailableError('unavailable', `SQLite: ${path} was closed meanwhile.`);
}

/** Before a busy file is tried again: at once, for a step of another process takes a fraction of a millisecond, then later. */
function pauseAfter(failures: number): Promise<void> {
  if (failures <= TRIED_AT_ONCE) return breath();
  return pause(failures <= 2 * TRIED_AT_ONCE ? 1 : 1 + Math.random() * 4);
}

function breath(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
