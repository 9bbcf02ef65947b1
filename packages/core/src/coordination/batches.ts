import type { Clock, Timer } from '../time/clock.js';
import { isLong, textOf } from './op-size.js';
import { hasNoRoom } from './refusals.js';
import type { ApplyAnswer, Op, Taken } from './store.js';
import { carryMs } from './timing.js';

/** An operation on its way, and what to do when it was done or will not be. */
export interface Pending {
  readonly op: Op;
  /** Went out at least once: it may have been done although no answer came. */
  sent: boolean;
  /** Its caller was told that it failed: nobody waits for the result. */
  abandoned: boolean;
  /** Went out while this replica was trusted, and no answer came: it may have been done, whatever a later answer says. */
  isUnsure: boolean;
  /** When it was called for, and when it went out first. */
  sinceMs?: number;
  sentAtMs?: number;
  /** It did not get through, and its caller was told so. */
  isGivenUp?: boolean;
  readonly settle: (result: Taken | null) => void;
  readonly reject: (error: Error) => void;
}

interface Flight {
  readonly batch: number;
  readonly pending: readonly Pending[];
  ops: readonly Op[];
  /** How long an attempt may take. */
  readonly limitMs: number;
  resendAtMs: number;
  /** Whether it went out while this replica was trusted. */
  wasTrusted: boolean;
  /** Why the last attempt failed. */
  cause: Error;
  /** How many attempts were made, and how many of them the store has surely refused. */
  attempts: number;
  refusals: number;
}

export interface BatchesOptions {
  readonly clock: Clock;
  readonly attemptMs: number;
  /** How long an operation is tried at least while heartbeats are answered and it is not. */
  readonly patienceMs: number;
  readonly canSend: () => boolean;
  /** As it was found by the last `send`. */
  readonly isTrusted: () => boolean;
  readonly send: (batch: number, ops: readonly Op[]) => Promise<ApplyAnswer>;
  readonly onAnswer: (answer: ApplyAnswer, pending: readonly Pending[]) => void;
  readonly onFailure: (error: Error) => void;
  /** What the caller of an operation that does not get through is told. */
  readonly refusal: (op: Op, cause: Error) => Error;
}

const MAX_OPS = 256;
/** So many laps of the queue of microtasks have to bring no further call. */
const CALM_LAPS = 4;
/** Fewer attempts say nothing of an operation. */
const LEAST_ATTEMPTS = 3;
/** Stands for one that was given up: it comes to nothing in any store. */
const NOTHING: Op = { op: 'drop', key: '', seq: 0 };
/** Of all texts in a batch, as UTF-16 units. A batch has to get through a slow link before it counts as unanswered. */
const MAX_TEXT = 256 * 1024;

/**
 * Operations in the order of the calls, in numbered batches, at most one in flight: so the order is kept, a batch whose
 * answer was lost is sent again without a second effect, and many calls share a round trip.
 */
export class Batches {
  readonly #options: BatchesOptions;
  readonly #whenIdle: (() => void)[] = [];
  #queue: Pending[] = [];
  #flight: Flight | undefined;
  #last = 0;
  #isScheduled = false;
  #guard: Timer | undefined;
  #guardAtMs = 0;
  /** Runs while the store has no room: until then, only what makes room is sent. */
  #roomTimer: Timer | undefined;

  constructor(options: BatchesOptions) {
    this.#options = options;
  }

  /** The last batch whose answer arrived. */
  get answered(): number {
    return this.#flight === undefined ? this.#last : this.#last - 1;
  }

  get isInFlight(): boolean {
    return this.#flight !== undefined;
  }

  /** Resolves when nothing waits and nothing is in flight. */
  idle(): Promise<void> {
    if (this.#isIdle()) return Promise.resolve();
    return new Promise((resolve) => this.#whenIdle.push(resolve));
  }

  #isIdle(): boolean {
    return this.#flight === undefined && this.#queue.length === 0;
  }

  push(pending: Pending): void {
    pending.sinceMs ??= this.#options.clock.monotonicMs();
    this.#queue.push(pending);
    this.kick();
  }

  /** Sends what waits, once the current task, and what goes on at its end, has made all its calls. */
  kick(): void {
    if (this.#isScheduled || this.#flight !== undefined || this.#queue.length === 0) return;
    this.#isScheduled = true;
    this.#departOnceCalm(this.#queue.length, CALM_LAPS);
  }

  /** Answers wake many tasks, each of which makes its next call some microtasks later: all of them share a batch. */
  #departOnceCalm(length: number, laps: number): void {
    queueMicrotask(() => {
      const now = this.#queue.length;
      if (now > length && now < MAX_OPS) this.#departOnceCalm(now, CALM_LAPS);
      else if (laps > 1) this.#departOnceCalm(now, laps - 1);
      else {
        this.#isScheduled = false;
        this.#depart();
      }
    });
  }

  /** Takes back what was not sent and matches. */
  recall(matches: (pending: Pending) => boolean): Pending[] {
    const recalled = this.#queue.filter(matches);
    if (recalled.length > 0) this.#queue = this.#queue.filter((pending) => !matches(pending));
    return recalled;
  }

  /** Everything without an answer, in order. */
  all(): readonly Pending[] {
    return [...(this.#flight?.pending ?? []), ...this.#queue];
  }

  /** Puts a batch that was not done back to the front of what waits. */
  putBack(pending: readonly Pending[]): void {
    this.#queue = [...pending, ...this.#queue];
  }

  /** Starts to count anew for a new epoch. Returns everything that had no answer, in order. */
  reset(): Pending[] {
    if (this.#flight !== undefined) markUnsure(this.#flight);
    const rest = [...this.all()];
    this.#flight = undefined;
    this.#queue = [];
    this.#last = 0;
    this.#disarm();
    this.#endWaitForRoom();
    return rest;
  }

  #depart(): void {
    if (this.#flight !== undefined || this.#queue.length === 0 || !this.#options.canSend()) return;
    const pending = this.#next();
    if (pending.length === 0) return;
    this.#last += 1;
    const ops = pending.map((each) => each.op);
    const limitMs = this.#options.attemptMs + carryMs(lengthOf(ops));
    this.#flight = {
      batch: this.#last,
      pending,
      ops,
      limitMs,
      resendAtMs: 0,
      wasTrusted: false,
      cause: new Error('The backend did not answer.'),
      attempts: 0,
      refusals: 0,
    };
    const nowMs = this.#options.clock.monotonicMs();
    for (const each of pending) {
      each.sent = true;
      each.sentAtMs ??= nowMs;
    }
    this.#attempt(this.#flight);
  }

  /** Takes the next batch off the queue. */
  #next(): readonly Pending[] {
    const queue = this.#queue;
    const ready = this.#roomTimer === undefined ? queue : queue.filter(makesRoom);
    const most = countThatFit(ready);
    if (most === queue.length) {
      this.#queue = [];
      return queue;
    }
    const pending = ready.slice(0, most);
    if (ready === queue) this.#queue = queue.slice(most);
    else {
      const taken = new Set(pending);
      this.#queue = queue.filter((each) => !taken.has(each));
    }
    return pending;
  }

  #attempt(flight: Flight): void {
    const { clock } = this.#options;
    flight.attempts += 1;
    flight.resendAtMs = clock.monotonicMs() + flight.limitMs;
    // What runs may be for a much longer one.
    if (this.#guard !== undefined && this.#guardAtMs - flight.resendAtMs > this.#options.attemptMs / 2) this.#disarm();
    if (this.#guard === undefined) this.#arm(flight.limitMs);
    this.#options.send(flight.batch, flight.ops).then(
      (answer) => this.#land(flight, answer),
      (error: unknown) => this.#stumble(flight, error as Error),
    );
    flight.wasTrusted ||= this.#options.isTrusted();
  }

  #repeat(flight: Flight): void {
    markUnsure(flight);
    this.#refuse(flight, this.#hopeless(flight));
    this.#refuse(flight, this.#stuckBehind(flight));
    // It may have been done all the same: then the batch, under its number, is answered as it was, and its place given back.
    if (flight.pending.some(isInVain)) flight.ops = flight.pending.map((each) => (isInVain(each) ? NOTHING : each.op));
    this.#attempt(flight);
  }

  /** What does not get through though the backend is well, but for releases: they are short, and have to. */
  #hopeless({ attempts, pending }: Pick<Flight, 'attempts' | 'pending'>): Pending[] {
    const { clock, isTrusted, patienceMs } = this.#options;
    if (attempts < LEAST_ATTEMPTS || !isTrusted()) return [];
    const sinceMs = clock.monotonicMs() - patienceMs;
    return pending.filter((each) => !makesRoom(each) && (each.sentAtMs ?? sinceMs) <= sinceMs);
  }

  /** What has waited behind such batches for twice that time. */
  #stuckBehind({ attempts }: Flight): Pending[] {
    const { clock, isTrusted, patienceMs } = this.#options;
    if (attempts < LEAST_ATTEMPTS || !isTrusted()) return [];
    const sinceMs = clock.monotonicMs() - 2 * patienceMs;
    return this.recall((each) => !makesRoom(each) && (each.sinceMs ?? sinceMs) <= sinceMs);
  }

  #refuse({ cause }: Flight, hopeless: readonly Pending[]): void {
    for (const each of hopeless) {
      each.isGivenUp = true;
      each.reject(this.#options.refusal(each.op, cause));
    }
  }

  #land(flight: Flight, answer: ApplyAnswer): void {
    // Only the first answer counts; all answers to one number are the same.
    if (this.#flight !== flight) return;
    this.#flight = undefined;
    if (flight.attempts > 1 && answer.kind === 'applied') for (const each of flight.pending) each.isUnsure = false;
    this.#options.onAnswer(answer, flight.pending);
    this.kick();
    if (this.#whenIdle.length > 0 && this.#isIdle()) for (const resolve of this.#whenIdle.splice(0)) resolve();
  }

  #stumble(flight: Flight, error: Error): void {
    if (this.#flight !== flight) return;
    const { clock, attemptMs } = this.#options;
    const pauseMs = attemptMs * (0.25 + clock.random() / 2);
    this.#disarm();
    flight.cause = error;
    if (hasNoRoom(error)) flight.refusals += 1;
    // One whose answer was lost may have been done: only the same batch may follow it.
    if (flight.refusals === flight.attempts && !flight.pending.every(makesRoom)) this.#postpone(flight, pauseMs);
    else {
      flight.resendAtMs = clock.monotonicMs() + pauseMs;
      this.#arm(pauseMs);
    }
    this.#options.onFailure(error);
  }

  /**
   * The store has no room, and has done nothing of it. Releases overtake what needs room: they free keys that are held,
   * and nothing that they overtake can hold a key of theirs yet.
   */
  #postpone(flight: Flight, pauseMs: number): void {
    this.#flight = undefined;
    this.#last -= 1;
    for (const each of flight.pending) each.sent = false;
    const hopeless = this.#hopeless({ attempts: LEAST_ATTEMPTS, pending: flight.pending });
    this.putBack(flight.pending.filter((each) => !hopeless.includes(each)));
    this.#refuse(flight, hopeless);
    this.#roomTimer = this.#options.clock.setTimer(pauseMs, () => {
      this.#roomTimer = undefined;
      this.kick();
    });
    this.kick();
  }

  #endWaitForRoom(): void {
    if (this.#roomTimer !== undefined) this.#options.clock.clearTimer(this.#roomTimer);
    this.#roomTimer = undefined;
  }

  /** One timer for all flights, left running while batches come and go: a timer a batch would cost more than the batch. */
  #arm(delayMs: number): void {
    this.#guardAtMs = this.#options.clock.monotonicMs() + delayMs;
    this.#guard = this.#options.clock.setTimer(delayMs, () => {
      this.#guard = undefined;
      const flight = this.#flight;
      if (flight === undefined) return;
      const leftMs = flight.resendAtMs - this.#options.clock.monotonicMs();
      if (leftMs > 0) this.#arm(leftMs);
      else this.#repeat(flight);
    });
  }

  #disarm(): void {
    if (this.#guard !== undefined) this.#options.clock.clearTimer(this.#guard);
    this.#guard = undefined;
  }
}

function markUnsure({ pending, wasTrusted }: Flight): void {
  if (wasTrusted) for (const each of pending) each.isUnsure = true;
}

/** Nobody waits for it, and it may be why the batch is not answered: what gets through is sent without it. */
function isInVain(pending: Pending): boolean {
  return pending.isGivenUp === true || (pending.abandoned && isLong(pending.op) && !makesRoom(pending));
}

function makesRoom({ op }: Pending): boolean {
  return op.op === 'release' || op.op === 'drop';
}

/** How many of them, from the first, make one batch. What is long goes alone: others should not suffer for it. */
function countThatFit(queue: readonly Pending[]): number {
  const most = Math.min(queue.length, MAX_OPS);
  let text = 0;
  for (let at = 0; at < most; at += 1) {
    const { op } = queue[at]!;
    if (isLong(op)) return Math.max(1, at);
    text += textOf(op);
    if (text > MAX_TEXT) return at;
  }
  return most;
}

function lengthOf(ops: readonly Op[]): number {
  return ops.reduce((sum, op) => sum + textOf(op), 0);
}
