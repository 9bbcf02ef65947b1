/** Everything the protocol may know of time and chance. Tests hand in a virtual one; nothing else in core reads a clock. */
export interface Clock {
  /** Milliseconds that never go back. May stand still while the host is suspended. */
  monotonicMs(): number;
  /** Milliseconds since 1970. May jump either way. */
  wallMs(): number;
  /** Runs `run` once, not before `delayMs` have passed. */
  setTimer(delayMs: number, run: () => void): Timer;
  clearTimer(timer: Timer): void;
  /** A number from 0 up to but not including 1. */
  random(): number;
  /** A printable id that nobody else has. */
  uniqueId(): string;
}

/** A handle that only the clock which made it understands. */
export type Timer = object;

export const systemClock: Clock = {
  monotonicMs: () => performance.now(),
  wallMs: () => Date.now(),
  setTimer: (delayMs, run) => setTimeout(run, Math.ceil(delayMs)),
  clearTimer: (timer) => clearTimeout(timer as NodeJS.Timeout),
  random: () => Math.random(),
  uniqueId: () => crypto.randomUUID(),
};

/** A moment on both clocks. */
export interface Instant {
  readonly monotonicMs: number;
  readonly wallMs: number;
}

export function instant(clock: Clock): Instant {
  return { monotonicMs: clock.monotonicMs(), wallMs: clock.wallMs() };
}

/**
 * How long ago `since` was: the greater of what the two clocks say. A suspended host stops the monotonic clock and a
 * set-back clock hides time from the wall clock; neither hides it from both.
 */
export function elapsedMs(clock: Clock, since: Instant): number {
  return Math.max(clock.monotonicMs() - since.monotonicMs, clock.wallMs() - since.wallMs);
}
