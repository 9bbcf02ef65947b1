import type { Coordinator, Leadership } from '../../coordination/types.js';
import { LeaseLostError, LifecycleError, TurnLimitError } from '../../errors.js';
import type { Load } from '../../pipeline/Load.js';
import { pause } from '../../pipeline/pause.js';
import { scheduleKey } from '../../pipeline/reserved.js';
import type { StateStore } from '../../state/state-store.js';
import type { Clock } from '../../time/clock.js';
import { type Enqueue, type Job, JobRun } from './Job.js';
import { type Missed, plan, readRecord, record } from './plan.js';
import type { Times } from './times.js';

/** A wait is cut into pieces, so that a wall clock that jumps, or a host that slept, is noticed. */
const LONGEST_LOOK_MS = 30_000;
/** So long a job may take to heed its signal. */
const LINGERING_MS = 1_000;
const FIRST_DELAY_MS = 1_000;
const LONGEST_DELAY_MS = 30_000;

export interface ScheduleSetup {
  readonly coordinator: Coordinator;
  readonly store: StateStore;
  readonly clock: Clock;
  readonly load: Load;
  readonly enqueue: Enqueue;
  /** Hears of what failed. Must not throw. */
  readonly failed: (error: unknown, what: string) => Promise<void>;
  /** Told to operators. */
  readonly tell: (line: string) => void;
}

interface Due {
  readonly dueMs: number;
  readonly attempt: number;
}

export interface Plan {
  readonly name: string;
  readonly times: Times;
  readonly missed: Missed;
  readonly maxRunMs: number | undefined;
  readonly run: (job: Job) => unknown;
}

/** One schedule on one replica: it campaigns, and while it leads, runs the job at each due time. */
export class Schedule {
  readonly #setup: ScheduleSetup;
  readonly #plan: Plan;
  #delayMs = FIRST_DELAY_MS;
  /** A job whose time was over, and that runs on. */
  #lingering: Promise<void> | undefined;

  constructor(setup: ScheduleSetup, plan: Plan) {
    this.#setup = setup;
    this.#plan = plan;
  }

  /**
   * Resolves after `stopping`, when a job that still runs has ended and the leadership is let go. `aborted` ends that job.
   * Never rejects.
   */
  async serve(stopping: AbortSignal, aborted: AbortSignal): Promise<void> {
    const { coordinator, clock, failed } = this.#setup;
    const { name } = this.#plan;
    while (!stopping.aborted) {
      try {
        // One that ignored its signal: it may not overlap with itself here, so others lead meanwhile.
        await this.#lingering;
        const leadership = await coordinator.lead(`schedule:${name}`, { signal: stopping });
        try {
          await this.#lead(leadership, stopping, aborted);
        } finally {
          await leadership.resign();
        }
      } catch (error) {
        if (stopping.aborted || isOver(error)) return;
        if (error instanceof LeaseLostError) continue;
        await failed(error, `schedule ${name}`);
        await pause(clock, this.#delayMs, stopping);
        this.#delayMs = Math.min(2 * this.#delayMs, LONGEST_DELAY_MS);
      }
    }
  }

  /** Does what is due, step by step, until the leadership is lost or not wanted any more. */
  async #lead(leadership: Leadership, stopping: AbortSignal, aborted: AbortSignal): Promise<void> {
    const { store, clock, tell } = this.#setup;
    const { name, times, missed } = this.#plan;
    const found = await store.load(scheduleKey(name));
    let last = found === null ? undefined : readRecord(found.value);
    const write = async (dueMs: number, attempt: number, isOver: boolean): Promise<void> => {
      leadership.assertHeld();
      const next = record(times, dueMs, attempt, isOver);
      await store.save(scheduleKey(name), next, leadership.term);
      last = next;
      this.#delayMs = FIRST_DELAY_MS;
    };
    while (!stopping.aborted && this.#lingering === undefined) {
      leadership.assertHeld();
      const nowMs = clock.wallMs();
      const step = plan(last, times, missed, nowMs);
      switch (step.kind) {
        case 'begin':
          if (step.isAfterFault) tell(`schedule ${name}: a clock was wrong by more than an hour. It begins anew.`);
          await write(nowMs, 0, true);
          break;
        case 'run':
          await this.#busy(async () => {
            await write(step.dueMs, step.attempt, false);
            await this.#run(step, leadership, aborted);
            await write(step.dueMs, step.attempt, true);
          });
          break;
        case 'give-up':
          tell(`schedule ${name}: the run due at ${iso(step.dueMs)} was cut off twice, and is given up.`);
          await write(step.dueMs, 2, true);
          break;
        case 'settle':
          await write(step.dueMs, 1, true);
          break;
        case 'wait': {
          const waitMs = Math.min((step.untilMs ?? Number.POSITIVE_INFINITY) - nowMs, LONGEST_LOOK_MS);
          await pause(clock, waitMs, stopping, leadership.signal);
          break;
        }
        default:
          step satisfies never;
      }
    }
  }

  /** Counts as a running turn, with the record of its end: a stop waits for it, as long as for those. */
  async #busy(act: () => Promise<void>): Promise<void> {
    const { load } = this.#setup;
    load.running++;
    try {
      await act();
    } finally {
      load.running--;
      load.changed();
    }
  }

  /**
   * Resolves when the job has ended or its time is over. Rejects when it was cut off: its record stays open then, and
   * whoever leads next runs it once more.
   */
  async #run(due: Due, leadership: Leadership, aborted: AbortSignal): Promise<void> {
    const { enqueue, failed } = this.#setup;
    const { name, run } = this.#plan;
    const ending = new AbortController();
    const stopListening = follow(ending, leadership.signal, aborted);
    try {
      aborted.throwIfAborted();
      leadership.assertHeld();
      const job = new JobRun(name, due, leadership, ending.signal, enqueue);
      await this.#limited((async () => run(job))(), ending);
    } catch (error) {
      if (!ending.signal.aborted || error instanceof TurnLimitError) {
        await failed(error, `schedule ${name}, due at ${iso(due.dueMs)},`);
      }
    } finally {
      stopListening();
    }
    aborted.throwIfAborted();
    leadership.assertHeld();
  }

  /** A job that heeds its signal ends soon, and nothing is to be said of it. */
  async #tellOfLingering(): Promise<void> {
    const lingering = this.#lingering;
    const over = new AbortController();
    void lingering?.then(() => over.abort());
    await pause(this.#setup.clock, LINGERING_MS, over.signal);
    if (over.signal.aborted) return;
    this.#setup.tell(
      `schedule ${this.#plan.name}: its job goes on though its time is over. Until it ends, this replica runs the schedule no more, and leaves it to others; once none is left, it stands still. Pass job.signal on to what takes long.`,
    );
  }

  /** Rejects when the job takes longer than it may. */
  #limited(running: Promise<unknown>, ending: AbortController): Promise<unknown> {
    const { clock } = this.#setup;
    const { name, maxRunMs } = this.#plan;
    if (maxRunMs === undefined) return running;
    return new Promise((resolve, reject) => {
      const timer = clock.setTimer(maxRunMs, () => {
        const error = new TurnLimitError(maxRunMs, name);
        this.#lingering = running.then(noop, noop).then(() => {
          this.#lingering = undefined;
        });
        ending.abort(error);
        reject(error);
        void this.#tellOfLingering();
      });
      running.then(resolve, reject).finally(() => clock.clearTimer(timer));
    });
  }
}

const noop = (): void => {};

/** Aborts `controller` as soon as one of the signals does. Call what it returns when that does not matter any more. */
function follow(controller: AbortController, ...signals: AbortSignal[]): () => void {
  const listeners = signals.map((signal) => ({ signal, onAbort: () => controller.abort(signal.reason) }));
  for (const { signal, onAbort } of listeners) {
    if (signal.aborted) onAbort();
    else signal.addEventListener('abort', onAbort);
  }
  return () => {
    for (const { signal, onAbort } of listeners) signal.removeEventListener('abort', onAbort);
  };
}

function iso(ms: number): string {
  return new Date(ms).toISOString();
}

/** Nobody campaigns on this coordinator any more. */
function isOver(error: unknown): boolean {
  return error instanceof LifecycleError || (error instanceof LeaseLostError && error.reason === 'replaced');
}
