import type { Leadership } from '../../coordination/types.js';

/** What a scheduled function gets: one due time. */
export interface Job {
  /** The schedule's. */
  readonly name: string;
  /** When it was due, in milliseconds since 1970. */
  readonly dueMs: number;
  /** 1; 2 when the replica that ran it first died, stopped or lost its leadership before the end. Never more. */
  readonly attempt: number;
  /** The fencing token of this schedule's leader: greater than that of every earlier one. Send it along with writes. */
  readonly term: number;
  /** Aborts when this replica may not run the job any more. Pass it to whatever takes long. */
  readonly signal: AbortSignal;
  /** Reads the clocks now and throws LeaseLostError unless this replica surely leads. Call it before every side effect. */
  assertHeld(): void;
  /**
   * Puts work into a chat's queue, where it waits for its turn as a message does, and reaches the handler that
   * `bot.job(name, …)` registered, with `data` as `ctx.job.data`. Once for each chat and due time: also when the job is
   * run again. To put in more than one, tell them apart by `id`. `data` is plain JSON data.
   *
   * @throws what a provider's intake throws when it is not taken in
   */
  inChat(chat: string, data?: unknown, options?: { id?: string }): Promise<'accepted' | 'duplicate'>;
}

/** Puts a job into a chat's queue. */
export type Enqueue = (
  chat: string,
  job: { readonly name: string; readonly dueMs: number; readonly data: unknown },
  id: string,
) => Promise<'accepted' | 'duplicate'>;

/** One run of a job, under a leadership. */
export class JobRun implements Job {
  readonly name: string;
  readonly dueMs: number;
  readonly attempt: number;
  readonly signal: AbortSignal;
  readonly #leadership: Leadership;
  readonly #enqueue: Enqueue;

  constructor(
    name: string,
    due: { dueMs: number; attempt: number },
    leadership: Leadership,
    signal: AbortSignal,
    enqueue: Enqueue,
  ) {
    this.name = name;
    this.dueMs = due.dueMs;
    this.attempt = due.attempt;
    this.signal = signal;
    this.#leadership = leadership;
    this.#enqueue = enqueue;
  }

  get term(): number {
    return this.#leadership.term;
  }

  assertHeld(): void {
    this.signal.throwIfAborted();
    this.#leadership.assertHeld();
  }

  async inChat(chat: string, data?: unknown, { id }: { id?: string } = {}): Promise<'accepted' | 'duplicate'> {
    this.assertHeld();
    const { name, dueMs } = this;
    return this.#enqueue(
      chat,
      { name, dueMs, data },
      JSON.stringify(id === undefined ? [name, dueMs] : [name, dueMs, id]),
    );
  }
}
