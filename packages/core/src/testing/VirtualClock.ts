import type { Clock, Timer } from '../time/clock.js';
import { seededRandom } from './random.js';
import { TimerHeap } from './timer-heap.js';

export interface VirtualClockOptions {
  /** Decides `random()`. The same seed and the same calls give the same run. */
  seed?: number;
  /** What the wall clock shows at the start. */
  wallMs?: number;
}

// Taken at load, so that fake timers put on globalThis later do not stop the virtual clock.
const afterMicrotasks = setImmediate;

const START_WALL_MS = 1_800_000_000_000;
const HOUR_MS = 3_600_000;
// Immediates put down together run in one phase, microtasks drained between any two: that saves a poll for each event.
const MOST_TURNS_AT_ONCE = 64;
const MOST_EVENTS_AT_ONE_TIME = 1_000_000;

/**
 * A clock that moves only when told, and lets every promise chain settle between two timers. Chains that wait for real
 * input or output do not count, unless they hold the clock meanwhile: only what hangs on this clock is waited for.
 *
 * Move it by hand with `advance`, or let it move by itself with `run`.
 */
export class VirtualClock implements Clock {
  readonly #timers = new TimerHeap();
  readonly #random: () => number;
  readonly #seed: number;
  readonly #wallAtZeroMs: number;
  #nowMs = 0;
  #ids = 0;
  #eventsNow = 0;
  #moved: 'by hand' | 'by itself' | undefined;
  #holds = 0;
  /** Goes on where the clock stopped because it was held. */
  #goOn: (() => void) | undefined;

  constructor(options: VirtualClockOptions = {}) {
    this.#seed = options.seed ?? 1;
    this.#random = seededRandom(this.#seed);
    this.#wallAtZeroMs = options.wallMs ?? START_WALL_MS;
  }

  /** How many timers are set. */
  get pending(): number {
    return this.#timers.size;
  }

  monotonicMs(): number {
    return this.#nowMs;
  }

  wallMs(): number {
    return this.#wallAtZeroMs + this.#nowMs;
  }

  /** Takes whole milliseconds, rounded up, as timers of the platform do: time never creeps on by less than it can show. */
  setTimer(delayMs: number, run: () => void): Timer {
    if (Number.isNaN(delayMs)) throw new RangeError('setTimer(): delayMs is NaN.');
    return this.#timers.add(this.#nowMs + Math.max(0, Math.ceil(delayMs)), run);
  }

  clearTimer(timer: Timer): void {
    this.#timers.remove(timer);
  }

  random(): number {
    return this.#random();
  }

  /** Unique on this clock, and the same in every run of one seed. */
  uniqueId(): string {
    this.#ids += 1;
    return `${this.#seed.toString(36)}-${this.#ids.toString(36).padStart(6, '0')}`;
  }

  /** Resolves when the clock has moved on by `ms`. Does not move it: `advance` or `run` must. */
  sleep(ms: number): Promise<void> {
    return new Promise((resolve) => {
      this.setTimer(ms, resolve);
    });
  }

  /** Resolves when every promise chain that can go on without time passing has done so. */
  settle(): Promise<void> {
    return new Promise((resolve) => {
      afterMicrotasks(resolve);
    });
  }

  /**
   * Makes time stand still, also within `advance` and `run`, until the returned function is called: for real input or output
   * that is to take no time. Nothing bounds a hold; whoever waits for what may never come must give up by itself.
   */
  hold(): () => void {
    this.#holds += 1;
    let isHeld = true;
    return () => {
      if (!isHeld) return;
      isHeld = false;
      this.#holds -= 1;
      if (this.#holds > 0) return;
      const goOn = this.#goOn;
      this.#goOn = undefined;
      goOn?.();
    };
  }

  /** Moves on by `ms`, running what comes due, in order. Rejects with what a timer throws. */
  async advance(ms: number): Promise<void> {
    if (this.#moved !== undefined) throw new Error(`advance(): the clock is being moved ${this.#moved}. Use sleep().`);
    const untilMs = this.#nowMs + ms;
    await this.#move('by hand', () => {
      const nextMs = this.#timers.nextMs();
      if (nextMs !== undefined && nextMs <= untilMs) return this.#runNext();
      this.#nowMs = untilMs;
      return false;
    });
  }

  /**
   * Runs `body`; whenever it waits and everything has settled, the clock jumps to the next timer. Ends when the body does,
   * and leaves the timers that are still set. Rejects when the body waits for longer than `maxMs`, or while no timer is set.
   */
  async run<T>(body: () => Promise<T>, { maxMs = HOUR_MS }: { maxMs?: number } = {}): Promise<T> {
    if (this.#moved === 'by itself') return body();
    if (this.#moved !== undefined) throw new Error('run(): the clock is being moved by hand.');
    const untilMs = this.#nowMs + maxMs;
    let ended = false;
    const end = (): void => {
      ended = true;
    };
    this.#moved = 'by itself';
    const result = body();
    result.then(end, end);
    await this.#move('by itself', () => {
      if (ended) return false;
      const nextMs = this.#timers.nextMs();
      if (nextMs === undefined)
        throw new Error('run(): the body waits, but nothing is left to wait for: no timer is set.');
      if (nextMs > untilMs) throw new Error(`run(): the body still waits after ${maxMs} ms of virtual time.`);
      return this.#runNext();
    });
    return result;
  }

  #runNext(): boolean {
    const { atMs, run } = this.#timers.take();
    this.#eventsNow = atMs > this.#nowMs ? 1 : this.#eventsNow + 1;
    if (this.#eventsNow > MOST_EVENTS_AT_ONE_TIME) throw new Error('Time stands still: timers of 0 ms set each other.');
    this.#nowMs = atMs;
    run();
    return true;
  }

  /** Calls `step` once a macrotask until it answers false or throws. */
  #move(how: 'by hand' | 'by itself', step: () => boolean): Promise<void> {
    this.#moved = how;
    return new Promise((resolve, reject) => {
      let over = false;
      let turns = 1;
      let left = 1;
      const end = (): void => {
        over = true;
        this.#moved = undefined;
      };
      const turn = (): void => {
        if (over) return;
        left -= 1;
        if (this.#holds > 0) {
          if (left === 0) this.#goOn = () => plan(1);
          return;
        }
        if (left === 0) plan(Math.min(turns * 2, MOST_TURNS_AT_ONCE));
        try {
          if (step()) return;
          end();
          resolve();
        } catch (error) {
          end();
          reject(error);
        }
      };
      const plan = (count: number): void => {
        turns = count;
        left = count;
        for (let n = 0; n < count; n++) afterMicrotasks(turn);
      };
      plan(1);
    });
  }
}
