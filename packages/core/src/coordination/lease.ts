import { type Clock, elapsedMs, type Instant, type Timer } from '../time/clock.js';

/**
 * How long this replica may believe in what it holds. Trust runs from the moment before its last answered heartbeat was
 * sent, which is before the store recorded it: so it ends here before anyone can be granted the key by expiry.
 */
export class Lease {
  readonly #clock: Clock;
  readonly #trustMs: number;
  readonly #onLapse: () => void;
  #trustedFrom: Instant | undefined;
  #watchdog: Timer | undefined;

  constructor(clock: Clock, trustMs: number, onLapse: () => void) {
    this.#clock = clock;
    this.#trustMs = trustMs;
    this.#onLapse = onLapse;
  }

  /** Milliseconds of trust left by the clocks now; 0 or less when there is none. */
  remainingMs(): number {
    if (this.#trustedFrom === undefined) return 0;
    return this.#trustMs - elapsedMs(this.#clock, this.#trustedFrom);
  }

  /** Whether trust stood when last looked at. Reads no clock: nothing may be believed by it. */
  get isOpen(): boolean {
    return this.#trustedFrom !== undefined;
  }

  /** Whether trust stands now. Reads the clocks; if trust ran out unnoticed, the lapse happens before this returns. */
  check(): boolean {
    return this.checkedMs() > 0;
  }

  /** As `check`, and how much is left: 0 when there is no trust. */
  checkedMs(): number {
    if (this.#trustedFrom === undefined) return 0;
    const remainingMs = this.remainingMs();
    if (remainingMs > 0) return remainingMs;
    this.end();
    this.#onLapse();
    return 0;
  }

  /**
   * A heartbeat sent at `sentAt` was answered. If trust had run out before, what was held then is lost first: a pause
   * that ended just before a heartbeat must not make it held again.
   */
  extend(sentAt: Instant): void {
    this.check();
    this.#trustedFrom = sentAt;
    if (this.#watchdog === undefined) this.#watch();
  }

  /** No trust from now on, without a lapse: the caller has ended what was held. */
  end(): void {
    this.#trustedFrom = undefined;
    if (this.#watchdog !== undefined) this.#clock.clearTimer(this.#watchdog);
    this.#watchdog = undefined;
  }

  #watch(): void {
    this.#watchdog = this.#clock.setTimer(Math.max(0, this.remainingMs()), () => {
      this.#watchdog = undefined;
      if (this.check()) this.#watch();
    });
  }
}
