import type { ChatTurn } from '../coordination/types.js';
import {
  CoordinationUnavailableError,
  LeaseLostError,
  LifecycleError,
  StaleFenceError,
  TurnLimitError,
} from '../errors.js';
import type { Provider } from '../providers/provider.js';
import type { StoredState } from '../state/state-store.js';
import type { Clock } from '../time/clock.js';
import { Attempt, type Way } from './Attempt.js';
import { decode, type Message } from './envelope.js';
import { pause } from './pause.js';
import { Session } from './Session.js';
import type { TurnSetup, Work } from './setup.js';

/**
 * The life of a message on this replica.
 *
 * - `waiting`: it has its place, other messages of its chat are before it
 * - `opening`: its chat is held; the message and the chat's state are read
 * - `handling`: the handlers run
 * - `settling`: the last replies leave, the state is saved
 * - `failing`: an attempt threw; the error hooks run
 * - `requeueing`: its place was lost and nobody else has it (only without a durable coordinator)
 * - `done`: handled, and marked so
 * - `returned`: given back to be tried again in its place
 * - `left`: no longer ours: lost with the turn, or left for others because the Bot stops
 * - `dropped`: gone for good, and told so
 */
export type TurnState =
  | 'waiting'
  | 'opening'
  | 'handling'
  | 'settling'
  | 'failing'
  | 'requeueing'
  | 'done'
  | 'returned'
  | 'left'
  | 'dropped';

const NEXT: Record<TurnState, readonly TurnState[]> = {
  waiting: ['opening', 'left', 'requeueing'],
  opening: ['handling', 'failing'],
  handling: ['settling', 'failing'],
  settling: ['done', 'failing'],
  failing: ['opening', 'returned', 'left', 'requeueing', 'dropped'],
  requeueing: ['waiting', 'left', 'dropped'],
  done: [],
  returned: [],
  left: [],
  dropped: [],
};

const REQUEUE_DELAY_MS = 1_000;

/** Carries one message from its place to its end. */
export class MessageTurn implements Way {
  readonly provider: Provider;
  readonly clock: Clock;
  /** Names the message in the chat's state, in every attempt the same. */
  readonly mark: number;
  readonly isLimited: boolean;
  readonly #setup: TurnSetup;
  #work: Work;
  #state: TurnState = 'waiting';
  #turn: ChatTurn | undefined;
  #message: Message | undefined;
  #attempt: Attempt | undefined;
  #error: unknown;

  constructor(setup: TurnSetup, work: Work) {
    this.provider = setup.provider;
    this.clock = setup.clock;
    this.mark = work.ticket.seq;
    this.isLimited = setup.maxTurnMs !== undefined;
    this.#setup = setup;
    this.#work = work;
    setup.load.waiting++;
  }

  /** Resolves when the message has ended here. Never rejects. */
  async run(): Promise<void> {
    for (;;) {
      try {
        switch (this.#state) {
          case 'waiting':
            this.#turn = await this.#setup.coordinator.acquireTurn(this.#work.ticket);
            // Not begun: the coordinator's stop() passes it on at once, and does not count it as an attempt.
            this.#to(this.#setup.stopping.aborted && this.#setup.isDurable ? 'left' : 'opening');
            break;
          case 'opening':
            this.#attempt = undefined;
            this.#message = read(this.#work);
            this.#attempt = this.#begin(await this.#load(this.#message.chat), this.#turn!);
            this.#to('handling');
            break;
          case 'handling':
            // Unless an earlier attempt got as far as saving: its replies are out, and it may not act on its own result.
            if (this.#attempt!.session.savedBy !== this.mark) await this.#handle(this.#attempt!);
            this.#to('settling');
            break;
          case 'settling':
            await this.#limited(() => this.#settle(this.#attempt!));
            this.#to('done');
            break;
          case 'failing':
            this.#to(await this.#fail(this.#turn!));
            break;
          case 'requeueing':
            this.#to(await this.#requeue());
            break;
          case 'done':
          case 'returned':
          case 'left':
          case 'dropped':
            return;
          default:
            this.#state satisfies never;
        }
      } catch (error) {
        this.#error = error;
        this.#to(await this.#afterError(error));
      }
    }
  }

  /** The only place where the state changes. */
  #to(next: TurnState): void {
    if (!NEXT[this.#state].includes(next)) throw new Error(`a message turn went from ${this.#state} to ${next}`);
    const { load } = this.#setup;
    const wasRunning = isRunning(this.#state);
    if (this.#state === 'waiting' || this.#state === 'requeueing') load.waiting--;
    if (next === 'waiting' || next === 'requeueing') load.waiting++;
    this.#state = next;
    if (isRunning(next) !== wasRunning) load.running += wasRunning ? -1 : 1;
    load.changed();
  }

  async #afterError(error: unknown): Promise<TurnState> {
    if (this.#state === 'waiting') return this.#refused(error);
    // A coordinator that breaks its word: the lease ends what is still held.
    return this.#state === 'failing' || this.#state === 'requeueing' ? 'left' : 'failing';
  }

  /** The turn was not granted. With a durable coordinator the mesh has the message: it comes again, here or elsewhere. */
  async #refused(error: unknown): Promise<TurnState> {
    if (!isExpected(error)) await this.#setup.failed(error, undefined, this.#work);
    return this.#setup.isDurable ? 'left' : 'requeueing';
  }

  #load(chat: string): StoredState | null | Promise<StoredState | null> {
    return this.#limited(() => this.#setup.store.load(chat));
  }

  #begin(state: StoredState | null, turn: ChatTurn): Attempt {
    const session = new Session(state);
    turn.assertHeld();
    return new Attempt(this.#message!, turn, this.#work.attempt, session, this);
  }

  #handle(attempt: Attempt): unknown {
    return this.#limited(
      () => this.#setup.handle(attempt),
      (error) => attempt.abort(error),
    );
  }

  /** What `act` gives; a TurnLimitError when it takes longer than a turn may. What it waits for may then never come. */
  #limited<T>(act: () => T, onLimit?: (error: TurnLimitError) => void): T | Promise<Awaited<T>> {
    const { maxTurnMs, clock } = this.#setup;
    if (maxTurnMs === undefined) return act();
    return new Promise((resolve, reject) => {
      const timer = clock.setTimer(maxTurnMs, () => {
        const error = new TurnLimitError(maxTurnMs);
        onLimit?.(error);
        reject(error);
      });
      const done = (async () => act())() as Promise<Awaited<T>>;
      done.then(resolve, reject).finally(() => clock.clearTimer(timer));
    });
  }

  // These three are no async functions: what is not needed is not waited for, and most messages need only the release.

  #settle(attempt: Attempt): Promise<void> {
    const flushed = attempt.flush();
    return flushed === undefined ? this.#save(attempt) : flushed.then(() => this.#save(attempt));
  }

  #save(attempt: Attempt): Promise<void> {
    const { turn, session, message } = attempt;
    turn.assertHeld();
    const saved = session.save(this.#setup.store, message.chat, turn.fence, this.mark);
    return saved === undefined ? this.#end(attempt) : saved.then(() => this.#end(attempt));
  }

  #end(attempt: Attempt): Promise<void> {
    attempt.close();
    return attempt.turn.release();
  }

  /** Decides by the turn, not by the error: a handler whose turn was lost may throw anything. */
  async #fail(turn: ChatTurn): Promise<TurnState> {
    const { isDurable, maxAttempts, stopping } = this.#setup;
    if (isHeld(turn)) await this.#tell(turn);
    this.#attempt?.close();
    if (!isHeld(turn)) return isDurable ? 'left' : 'requeueing';
    if (this.#error instanceof StaleFenceError || isDurable) {
      await turn.release({ retry: true });
      return isDurable ? 'returned' : 'requeueing';
    }
    if (this.#work.attempt < maxAttempts && !stopping.aborted) {
      this.#work = { ...this.#work, attempt: this.#work.attempt + 1 };
      return 'opening';
    }
    await turn.release();
    this.#setup.dropped(this.#work, `it failed ${this.#work.attempt} times`);
    return 'dropped';
  }

  /** The hooks, the replies they send, and the time before the next attempt. */
  async #tell(turn: ChatTurn): Promise<void> {
    // A hook or a send that hangs may not hold the chat for longer than a handler may.
    await Promise.resolve(this.#limited(() => this.#report())).catch(() => {});
    const delayMs = this.#setup.retryDelayMs(this.#work.attempt);
    if (delayMs > 0) await pause(this.clock, delayMs, this.#setup.stopping, turn.signal);
  }

  async #report(): Promise<void> {
    const attempt = this.#attempt;
    await attempt?.flush()?.catch(() => {});
    await this.#setup.failed(this.#error, attempt, this.#work);
    await attempt?.flush()?.catch(() => {});
  }

  async #requeue(): Promise<TurnState> {
    const { coordinator, stopping } = this.#setup;
    while (!stopping.aborted) {
      try {
        const ticket = await coordinator.reserve(this.#work.ticket.key);
        this.#work = { ...this.#work, ticket, attempt: this.#work.attempt + (this.#turn === undefined ? 0 : 1) };
        this.#turn = undefined;
        return 'waiting';
      } catch {
        await pause(this.clock, REQUEUE_DELAY_MS, stopping);
      }
    }
    this.#setup.dropped(this.#work, 'the bot stopped, and its coordinator does not keep messages');
    return 'dropped';
  }
}

function read({ content }: Work): Message {
  return typeof content === 'string' ? decode(content) : content;
}

function isRunning(state: TurnState): boolean {
  return state === 'opening' || state === 'handling' || state === 'settling' || state === 'failing';
}

/** How the wait for a turn ends when the mesh, not this code, decides so. */
function isExpected(error: unknown): boolean {
  return (
    error instanceof LeaseLostError || error instanceof CoordinationUnavailableError || error instanceof LifecycleError
  );
}

function isHeld(turn: ChatTurn): boolean {
  try {
    turn.assertHeld();
    return true;
  } catch (error) {
    if (error instanceof LeaseLostError) return false;
    throw error;
  }
}
