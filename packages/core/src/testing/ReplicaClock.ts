import type { Clock, Timer } from '../time/clock.js';
import { Gate } from './Gate.js';

interface ReplicaTimer {
  dueMs: number;
  readonly run: () => void;
  /** Undefined while the host is suspended, and once it fired. */
  base: Timer | undefined;
  isSet: boolean;
}

/**
 * One replica's clock over a common one: it can be stopped, as a process or a host is, and its wall clock can be set. It
 * stops timers only. Whoever calls into the frozen replica still runs its code: freeze its links as well.
 */
export class ReplicaClock implements Clock {
  readonly #base: Clock;
  readonly #gate: Gate;
  readonly #timers = new Set<ReplicaTimer>();
  #wallOffsetMs = 0;
  #lostMs = 0;
  #suspendedAtMs: number | undefined;

  constructor(base: Clock) {
    this.#base = base;
    this.#gate = new Gate(base);
  }

  get isFrozen(): boolean {
    return this.#gate.isShut;
  }

  get isKilled(): boolean {
    return this.#gate.isGone;
  }

  /** How many timers are set. */
  get pending(): number {
    return this.#timers.size;
  }

  monotonicMs(): number {
    return (this.#suspendedAtMs ?? this.#base.monotonicMs()) - this.#lostMs;
  }

  wallMs(): number {
    return this.#base.wallMs() + this.#wallOffsetMs;
  }

  setTimer(delayMs: number, run: () => void): Timer {
    const timer: ReplicaTimer = { dueMs: this.monotonicMs() + delayMs, run, base: undefined, isSet: true };
    if (this.#gate.isGone) return timer;
    this.#timers.add(timer);
    if (this.#suspendedAtMs === undefined) this.#arm(timer, delayMs);
    return timer;
  }

  clearTimer(timer: Timer): void {
    const own = timer as ReplicaTimer;
    own.isSet = false;
    if (own.base !== undefined) this.#base.clearTimer(own.base);
    this.#timers.delete(own);
  }

  random(): number {
    return this.#base.random();
  }

  uniqueId(): string {
    return this.#base.uniqueId();
  }

  /** Stops the process (SIGSTOP): timers that come due wait for `thaw`, both clocks run on. */
  freeze(): void {
    this.#gate.shut();
  }

  /** Suspends the host: as `freeze`, and the monotonic clock stands still, with all timers. The wall clock runs on. */
  suspend(): void {
    if (this.#gate.isGone) return;
    this.#gate.shut();
    this.#suspendedAtMs ??= this.#base.monotonicMs();
    for (const timer of this.#timers) this.#disarm(timer);
  }

  /** Ends `freeze` or `suspend`: what came due runs in order, one macrotask apart. */
  thaw(): void {
    this.#gate.open();
    if (this.#suspendedAtMs === undefined) return;
    this.#lostMs += this.#base.monotonicMs() - this.#suspendedAtMs;
    this.#suspendedAtMs = undefined;
    const waiting = [...this.#timers].filter((timer) => timer.base === undefined && timer.isSet);
    for (const timer of waiting.sort((a, b) => a.dueMs - b.dueMs)) this.#arm(timer, timer.dueMs - this.monotonicMs());
  }

  /** Sets the wall clock forward or back, for good. */
  stepWall(ms: number): void {
    this.#wallOffsetMs += ms;
  }

  /** The process is gone: no timer runs any more. The clocks can still be read. */
  kill(): void {
    this.#gate.remove();
    for (const timer of this.#timers) this.clearTimer(timer);
  }

  #arm(timer: ReplicaTimer, delayMs: number): void {
    timer.base = this.#base.setTimer(Math.max(0, delayMs), () => {
      timer.base = undefined;
      this.#timers.delete(timer);
      this.#gate.pass(() => {
        if (timer.isSet) timer.run();
      });
    });
  }

  #disarm(timer: ReplicaTimer): void {
    if (timer.base === undefined) return;
    this.#base.clearTimer(timer.base);
    timer.base = undefined;
  }
}
