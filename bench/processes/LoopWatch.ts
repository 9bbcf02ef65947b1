import { closeSync, openSync, readSync } from 'node:fs';

/**
 * The longest time for which this process's event loop stood still. Time in which the process was ready to run and had no
 * core is taken off where the kernel tells it: that is the machine's, not the subject's.
 */
export class LoopWatch {
  readonly #everyMs: number;
  readonly #cores = new CoreWait();
  readonly #timer: NodeJS.Timeout;
  #lastMs = performance.now();
  #lastWaitedMs = this.#cores.waitedMs();
  #longestMs = 0;

  /** Looks every `everyMs`: by as much a stop may seem shorter than it was. */
  constructor(everyMs: number) {
    this.#everyMs = everyMs;
    this.#timer = setInterval(() => this.#look(), everyMs);
  }

  /** Ends the watch, and tells what it saw. */
  end(): number {
    this.#look();
    clearInterval(this.#timer);
    this.#cores.close();
    return this.#longestMs;
  }

  #look(): void {
    const nowMs = performance.now();
    const waitedMs = this.#cores.waitedMs();
    const stoodMs = nowMs - this.#lastMs - this.#everyMs - (waitedMs - this.#lastWaitedMs);
    this.#longestMs = Math.max(this.#longestMs, stoodMs);
    this.#lastMs = nowMs;
    this.#lastWaitedMs = waitedMs;
  }
}

/** How long the main thread has waited for a core, as Linux counts it; always 0 elsewhere. */
class CoreWait {
  readonly #file: number | undefined;
  readonly #buffer = Buffer.alloc(128);

  constructor() {
    try {
      this.#file = openSync(`/proc/self/task/${process.pid}/schedstat`, 'r');
    } catch {
      this.#file = undefined;
    }
  }

  waitedMs(): number {
    if (this.#file === undefined) return 0;
    const length = readSync(this.#file, this.#buffer, 0, this.#buffer.length, 0);
    return Number(this.#buffer.toString('latin1', 0, length).split(' ')[1]) / 1e6;
  }

  close(): void {
    if (this.#file !== undefined) closeSync(this.#file);
  }
}
