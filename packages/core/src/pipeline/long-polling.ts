import { BadInputError } from '../errors.js';
import type { IncomingMessage, Intake, Lead, Provider } from '../providers/provider.js';
import { type Clock, systemClock } from '../time/clock.js';
import { inTime } from './in-time.js';
import { pause } from './pause.js';

const FIRST_DELAY_MS = 1_000;
const LONGEST_DELAY_MS = 60_000;
/** An answer of nothing that comes sooner did not wait for anything: the next question is put off until then. */
const LEAST_EMPTY_MS = 250;

/** What an error of the platform asks for. */
export interface PollFault {
  /** In a few words, without secrets: goes to the log. */
  readonly what: string;
  /** Whether somebody else receives in this one's place. */
  readonly isConflict?: boolean;
  readonly retryAfterMs?: number | undefined;
}

/** Somebody outside the mesh receives with the same account. */
export interface Conflict {
  readonly what: string;
  /** How often in a row. */
  readonly count: number;
  /** How long this replica waits before it asks again. */
  readonly delayMs: number;
}

export interface LongPollingOptions<Update> {
  readonly name: string;
  /** Runs before the first poll of each leadership. What it throws is told, and tried again later. */
  readonly connect: (signal: AbortSignal) => Promise<unknown>;
  /** Waits for updates from `offset` on; 0 means from the oldest that was not confirmed. Each poll confirms what is older. */
  readonly poll: (offset: number, signal: AbortSignal) => Promise<readonly Update[]>;
  /** Confirms what is older than `offset`, and waits for nothing. */
  readonly confirm: (offset: number) => Promise<unknown>;
  /** Grows from update to update. */
  readonly numberOf: (update: Update) => number;
  readonly read: (update: Update) => IncomingMessage;
  readonly judge: (error: unknown) => PollFault;
  /**
   * A poll or a `connect` that takes longer, in milliseconds, is cut off by its signal and counts as a fault: of a
   * connection that has silently broken, many clients never hear. Default: none is.
   */
  readonly longestPollMs?: number | undefined;
  readonly onConflict?: ((conflict: Conflict) => void) | undefined;
  readonly log?: ((line: string) => void) | undefined;
  readonly clock?: Clock | undefined;
}

/**
 * Receives by polls that confirm by an offset, on one replica at a time. An update is confirmed when the Bot has taken it
 * in, and not before: one that was not is asked for again. When another poller takes the updates away, this one looks
 * whether it still leads; if so it waits, longer each time, and tells.
 */
export function longPolling<Update>(
  options: LongPollingOptions<Update>,
): Pick<Provider, 'name' | 'exclusive' | 'start' | 'stop'> {
  let polling: Polling<Update> | undefined;
  return {
    name: options.name,
    exclusive: 'receiving',
    async start(intake, lead) {
      const begun = new Polling(options, intake, lead);
      polling = begun;
      await begun.begin();
    },
    stop: () => polling?.end(),
  };
}

/** The polls of one leadership. */
class Polling<Update> {
  readonly #options: LongPollingOptions<Update>;
  readonly #intake: Intake;
  readonly #lead: Lead | undefined;
  readonly #clock: Clock;
  readonly #over = new AbortController();
  #running: Promise<void> | undefined;
  #offset = 0;
  #isConfirmed = true;
  /** How often in a row it did not work. */
  #faults = 0;

  constructor(options: LongPollingOptions<Update>, intake: Intake, lead: Lead | undefined) {
    this.#options = options;
    this.#intake = intake;
    this.#lead = lead;
    this.#clock = options.clock ?? systemClock;
    lead?.signal.addEventListener('abort', () => this.#over.abort(), { once: true });
  }

  async begin(): Promise<void> {
    await this.#within((cut) => this.#options.connect(cut));
    if (!this.#over.signal.aborted) this.#running = this.#loop();
  }

  /** Resolves when nothing is asked for any more. What was taken in is confirmed by then, unless another replica leads. */
  async end(): Promise<void> {
    this.#over.abort();
    await this.#running;
    if (this.#isConfirmed || !this.#isLeading()) return;
    this.#isConfirmed = true;
    await this.#options.confirm(this.#offset).catch(() => {});
  }

  async #loop(): Promise<void> {
    const { signal } = this.#over;
    while (!signal.aborted) {
      try {
        this.#lead?.assertHeld();
        const askedMs = this.#clock.monotonicMs();
        const updates = await this.#within((cut) => this.#options.poll(this.#offset, cut));
        this.#isConfirmed = true;
        if (await this.#take(updates)) this.#faults = 0;
        else await this.#wait('what came could not be taken in');
        if (updates.length === 0) await this.#breathe(askedMs);
      } catch (error) {
        // A poll that is cut off when it is over is no fault.
        if (signal.aborted || !this.#isLeading()) return;
        await this.#recover(this.#options.judge(error));
      }
    }
  }

  /** Runs `act` for no longer than a poll may take. */
  #within<T>(act: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const { longestPollMs, name } = this.#options;
    const { signal } = this.#over;
    if (longestPollMs === undefined) return act(signal);
    return inTime({ clock: this.#clock, limitMs: longestPollMs, who: name, signal }, act);
  }

  /** Whoever answers at once, and with nothing, is not asked without a pause. */
  async #breathe(askedMs: number): Promise<void> {
    const leftMs = LEAST_EMPTY_MS - (this.#clock.monotonicMs() - askedMs);
    if (leftMs > 0) await pause(this.#clock, leftMs, this.#over.signal);
  }

  /** Whether all of them were taken in. The offset stops before the first that was not. */
  async #take(updates: readonly Update[]): Promise<boolean> {
    // All are given their places before any is waited for.
    const takings = updates.map((update) => ({ update, taking: this.#takeOne(update) }));
    let isWhole = true;
    for (const { update, taking } of takings) {
      isWhole = (await taking) && isWhole;
      if (!isWhole) continue;
      this.#offset = this.#options.numberOf(update) + 1;
      this.#isConfirmed = false;
    }
    return isWhole;
  }

  async #takeOne(update: Update): Promise<boolean> {
    try {
      await this.#intake(this.#options.read(update));
      return true;
    } catch (error) {
      if (!(error instanceof BadInputError)) return false;
      const number = this.#options.numberOf(update);
      this.#log(`update ${number} can never be taken in, and is left out: ${error.message}`);
      return true;
    }
  }

  #recover({ what, isConflict = false, retryAfterMs }: PollFault): Promise<void> {
    return this.#wait(what, retryAfterMs, (delayMs) => {
      if (isConflict) this.#options.onConflict?.({ what, count: this.#faults, delayMs });
    });
  }

  async #wait(what: string, retryAfterMs = 0, tell: (delayMs: number) => void = () => {}): Promise<void> {
    this.#faults += 1;
    const delayMs = Math.max(retryAfterMs, Math.min(FIRST_DELAY_MS * 2 ** (this.#faults - 1), LONGEST_DELAY_MS));
    this.#log(`${what}. This replica asks again in ${Math.round(delayMs / 1000)} s.`);
    try {
      tell(delayMs);
    } catch {
      // A listener that throws disturbs nobody.
    }
    await pause(this.#clock, delayMs, this.#over.signal);
  }

  #isLeading(): boolean {
    try {
      this.#lead?.assertHeld();
      return true;
    } catch {
      return false;
    }
  }

  #log(line: string): void {
    (this.#options.log ?? console.warn)(`botmesh: ${this.#options.name}: ${line}`);
  }
}
