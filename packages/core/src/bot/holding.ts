import { BadInputError } from '../errors.js';
import type { Attempt } from '../pipeline/Attempt.js';
import { Holds, type HoldsSetup } from '../pipeline/Holds.js';
import { notPlain } from '../state/plain-data.js';
import type { StateRules } from '../state/StateRules.js';
import { type Context, type Holding, holdsOf } from './Context.js';

/** Lets the handlers of one attempt hold keys. Those they took are saved and let go when the handlers have ended. */
export class Handling {
  readonly #setup: HoldsSetup;
  /** Of the chat's own state. */
  readonly #rules: StateRules;

  constructor(setup: HoldsSetup, rules: StateRules) {
    this.#setup = setup;
    this.#rules = rules;
  }

  /** What a context is given, so that its handlers may hold keys. */
  readonly holding: Holding = (attempt) => new Holds(this.#setup, attempt.signal, (error) => attempt.abort(error));

  /** Runs the handlers on a context of `attempt`. */
  run(attempt: Attempt, ctx: Context, handlers: (ctx: Context) => unknown): unknown {
    let result: unknown;
    try {
      result = handlers(ctx);
    } catch (error) {
      void holdsOf(ctx)?.release();
      throw error;
    }
    if (isThenable(result))
      return result.then(
        () => this.#end(attempt, ctx),
        (error: unknown) => fail(ctx, error),
      );
    return this.#end(attempt, ctx);
  }

  /** Undefined where nothing was held. */
  #end(attempt: Attempt, ctx: Context): Promise<void> | undefined {
    const holds = holdsOf(ctx);
    return holds === undefined ? undefined : this.#settle(attempt, holds);
  }

  /** All that may fail the message comes first: what is saved under a key cannot be taken back. */
  async #settle(attempt: Attempt, holds: Holds): Promise<void> {
    try {
      await attempt.flush();
      const { data, flow } = attempt.session;
      refuse(notPlain(data, 'ctx.state') ?? notPlain(flow?.state ?? {}, 'c.state'));
      await this.#rules.check(data);
      // Lost with a hold: what was done under it is not known to be alone. And with a turn that is lost the message comes
      // again: it may not be done already.
      attempt.signal.throwIfAborted();
      attempt.turn.assertHeld();
      // What it did under its keys is not to be done again, should its replica die before it is marked as handled.
      if (await holds.save()) attempt.session.touch();
    } finally {
      // Not waited for: until the chat's state is saved too, time may only run out.
      void holds.release();
    }
  }
}

function refuse(problem: string | undefined): void {
  if (problem !== undefined) throw new BadInputError(`${problem}: expected plain JSON data.`);
}

function fail(ctx: Context, error: unknown): never {
  void holdsOf(ctx)?.release();
  throw error;
}

function isThenable(value: unknown): value is PromiseLike<unknown> {
  return typeof (value as { then?: unknown } | null | undefined)?.then === 'function';
}
