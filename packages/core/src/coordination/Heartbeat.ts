import { type Clock, elapsedMs, type Instant, instant, type Timer } from '../time/clock.js';
import type { BeatAnswer } from './store.js';
import type { Timing } from './timing.js';
import { NoAnswer } from './within.js';

export interface HeartbeatOptions {
  readonly clock: Clock;
  readonly timing: Timing;
  /** Makes the request from the replica's view as it is now. */
  readonly send: () => Promise<BeatAnswer>;
  /** Hears the answer of the attempt under way; returns how long after `sentAt` the next beat is due. */
  readonly onAnswer: (answer: BeatAnswer, sentAt: Instant) => number;
  /** Also hears why an attempt failed that was abandoned, if none was answered since. */
  readonly onFailure: (error: Error) => void;
  readonly onLate: (lateMs: number) => void;
}

/**
 * One heartbeat after the other, one under way at a time. An attempt that takes too long is made again, and the answer
 * of the abandoned one is not looked at: its view is out of date.
 */
export class Heartbeat {
  readonly #options: HeartbeatOptions;
  #timer: Timer | undefined;
  #dueMs = 0;
  /** How long the next attempt may take. Grows where answers are slow, so that a steady delay is no outage. */
  #limitMs: number;
  #attempt: { readonly limit: Timer; readonly untilMs: number } | undefined;
  /** Attempts that took too long, since the last answer. */
  readonly #abandoned = new Set<object>();
  #isWantedAgain = false;
  /** A timer of this heartbeat came late, and no answer since. */
  #wasLate = false;

  constructor(options: HeartbeatOptions) {
    this.#options = options;
    this.#limitMs = options.timing.attemptMs;
  }

  /** The next beat, `delayMs` after `from`. */
  schedule(from: Instant, delayMs: number): void {
    this.#wakeAt(from.monotonicMs + delayMs);
  }

  /** A beat at once, or as soon as the one under way is answered. */
  now(): void {
    if (this.#attempt !== undefined) this.#isWantedAgain = true;
    else this.#wakeAt(this.#options.clock.monotonicMs());
  }

  /** Whether this process, and not the backend, is why no answer came: its event loop was blocked, or it was frozen. */
  isBlocked(): boolean {
    return this.#wasLate || this.#isLate(this.#attempt?.untilMs ?? this.#dueMs);
  }

  #isLate(dueMs: number): boolean {
    return this.#options.clock.monotonicMs() - dueMs > this.#options.timing.trustMs / 4;
  }

  stop(): void {
    const { clock } = this.#options;
    if (this.#timer !== undefined) clock.clearTimer(this.#timer);
    if (this.#attempt !== undefined) clock.clearTimer(this.#attempt.limit);
    this.#timer = undefined;
    this.#attempt = undefined;
    this.#isWantedAgain = false;
    this.#abandoned.clear();
    this.#wasLate = false;
  }

  #wakeAt(dueMs: number): void {
    const { clock } = this.#options;
    if (this.#timer !== undefined) clock.clearTimer(this.#timer);
    this.#dueMs = dueMs;
    this.#timer = clock.setTimer(Math.max(0, dueMs - clock.monotonicMs()), () => {
      this.#timer = undefined;
      if (this.#attempt === undefined) this.#beat();
    });
  }

  #beat(): void {
    const { clock } = this.#options;
    if (this.#isLate(this.#dueMs)) {
      this.#wasLate = true;
      this.#options.onLate(clock.monotonicMs() - this.#dueMs);
    }
    this.#isWantedAgain = false;

    const sentAt = instant(clock);
    const limit = clock.setTimer(this.#limitMs, () => this.#timeOut(attempt));
    const attempt = { limit, untilMs: sentAt.monotonicMs + this.#limitMs };
    this.#attempt = attempt;
    this.#options.send().then(
      (answer) => this.#hear(attempt, answer, sentAt),
      (error: unknown) => this.#fail(attempt, error as Error, 0.25 + clock.random() / 2),
    );
  }

  #hear(attempt: object, answer: BeatAnswer, sentAt: Instant): void {
    if (this.#attempt !== attempt) return;
    this.#options.clock.clearTimer(this.#attempt.limit);
    this.#attempt = undefined;
    this.#abandoned.clear();
    this.#allow(2 * elapsedMs(this.#options.clock, sentAt));
    const nextMs = this.#options.onAnswer(answer, sentAt);
    this.#wasLate = false;
    // What the answer set off may have asked for a beat, or ended them all.
    if (this.#timer === undefined && nextMs !== Number.POSITIVE_INFINITY) {
      if (this.#isWantedAgain) this.now();
      else this.schedule(sentAt, nextMs);
    }
  }

  #timeOut(attempt: { readonly untilMs: number }): void {
    if (this.#isLate(attempt.untilMs)) this.#wasLate = true;
    this.#allow(2 * this.#limitMs);
    this.#abandoned.add(attempt);
    this.#fail(attempt, new NoAnswer(), 0);
  }

  /** Never longer than a heartbeat, so that several attempts fit into the trust. */
  #allow(limitMs: number): void {
    const { attemptMs, beatMs } = this.#options.timing;
    this.#limitMs = Math.min(Math.max(limitMs, attemptMs), beatMs);
  }

  #fail(attempt: object, error: Error, pause: number): void {
    if (this.#attempt !== attempt) {
      if (this.#abandoned.delete(attempt)) this.#options.onFailure(error);
      return;
    }
    const { clock, timing } = this.#options;
    clock.clearTimer(this.#attempt.limit);
    this.#attempt = undefined;
    this.#options.onFailure(error);
    this.#wakeAt(clock.monotonicMs() + pause * timing.attemptMs);
  }
}
