import type { ChatTurn, Coordinator, Ticket } from '../coordination/types.js';
import { CoordinationUnavailableError, LeaseLostError, LifecycleError, StaleFenceError } from '../errors.js';
import type { Provider } from '../providers/provider.js';
import type { StateStore } from '../state/state-store.js';
import type { Clock } from '../time/clock.js';
import { decode, type Message } from './envelope.js';
import type { Load } from './load.js';
import { Outbox } from './outbox.js';
import { pause } from './pause.js';
import { Session } from './session.js';

/** A message with its place, on the way to its turn. */
export interface Work {
  readonly ticket: Ticket;
  readonly id: string | undefined;
  /** The message, or its stored form when another replica took it in. */
  readonly content: Message | string;
  /** 1 for the first try. */
  readonly attempt: number;
}

/** What a handler works with: one attempt at one message. */
export interface Attempt {
  readonly message: Message;
  readonly turn: ChatTurn;
  readonly number: number;
  readonly outbox: Outbox;
  readonly session: Session;
}

/** What all turns of a Bot share. */
export interface TurnSetup {
  readonly coordinator: Coordinator;
  /** Whether the coordinator keeps messages. Otherwise they live and die with this process, and retries are made here. */
  readonly isDurable: boolean;
  readonly store: StateStore;
  readonly provider: Provider;
  readonly clock: Clock;
  readonly load: Load;
  /** Aborts when the Bot stops. */
  readonly stopping: AbortSignal;
  readonly maxAttempts: number;
  /** How long to hold the chat after the given attempt failed. */
  retryDelayMs(attempt: number): number;
  /** The user's part. What it throws fails the attempt. */
  handle(attempt: Attempt): unknown;
  /** Hears of every failed attempt while the turn is still held. Must not reject. */
  failed(error: unknown, attempt: Attempt | undefined, work: Work): Promise<void>;
  /** Hears of a message that nobody will handle. */
  dropped(work: Work, why: string): void;
}

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
  requeueing: ['waiting', 'dropped'],
  done: [],
  returned: [],
  left: [],
  dropped: [],
};

const REQUEUE_DELAY_MS = 1_000;

/** Carries one message from its place to its end. */
export class MessageTurn {
  readonly #setup: TurnSetup;
  /** Names the message in the chat's state, in every attempt the same. */
  readonly #mark: number;
  #work: Work;
  #state: TurnState = 'waiting';
  #turn: ChatTurn | undefined;
  #attempt: Attempt | undefined;
  #error: unknown;

  constructor(setup: TurnSetup, work: Work) {
    this.#setup = setup;
    this.#work = work;
    this.#mark = work.ticket.seq;
    setup.load.waiting++;
  }

  get state(): TurnState {
    return this.#state;
  }

  /** Resolves when the message has ended here. Never rejects. */
  async run(): Promise<void> {
    for (;;) {
      switch (this.#state) {
        case 'waiting':
          this.#to(await this.#acquire());
          break;
        case 'opening':
          this.#to(await this.#attemptTo(() => this.#open(), 'handling'));
          break;
        case 'handling':
          this.#to(await this.#attemptTo(() => this.#handle(), 'settling'));
          break;
        case 'settling':
          this.#to(await this.#attemptTo(() => this.#settle(), 'done'));
          break;
        case 'failing':
          this.#to(await this.#fail());
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

  async #acquire(): Promise<TurnState> {
    const { coordinator, isDurable, stopping } = this.#setup;
    try {
      this.#turn = await coordinator.acquireTurn(this.#work.ticket);
    } catch (error) {
      if (!isExpected(error)) await this.#setup.failed(error, undefined, this.#work);
      // The mesh has it: it comes again, here or elsewhere.
      return isDurable ? 'left' : 'requeueing';
    }
    // Not begun: the coordinator's stop() passes it on at once, and does not count it as an attempt.
    return stopping.aborted && isDurable ? 'left' : 'opening';
  }

  async #attemptTo(act: () => unknown, next: TurnState): Promise<TurnState> {
    try {
      await act();
      return next;
    } catch (error) {
      this.#error = error;
      return 'failing';
    }
  }

  async #open(): Promise<void> {
    const { store, provider, clock } = this.#setup;
    const { content, ticket, id, attempt } = this.#work;
    const turn = this.#turn!;
    this.#attempt = undefined;
    const message = typeof content === 'string' ? decode(content) : content;
    const session = await Session.load(store, message.chat);
    const outbox = new Outbox(provider, clock, message.chat, turn, `${message.chat}:${id ?? ticket.seq}`);
    turn.assertHeld();
    this.#attempt = { message, turn, number: attempt, outbox, session };
  }

  #handle(): unknown {
    const attempt = this.#attempt!;
    // An earlier attempt got as far as saving: its replies are out, and running it again would act on its own result.
    if (attempt.session.savedBy === this.#mark) return undefined;
    return this.#setup.handle(attempt);
  }

  async #settle(): Promise<void> {
    const { outbox, session, message } = this.#attempt!;
    const turn = this.#turn!;
    if (!outbox.isClear) await outbox.flush();
    turn.assertHeld();
    await session.save(this.#setup.store, message.chat, turn.fence, this.#mark);
    turn.assertHeld();
    outbox.close();
    await turn.release();
  }

  /** Decides by the turn, not by the error: a handler whose turn was lost may throw anything. */
  async #fail(): Promise<TurnState> {
    const { isDurable } = this.#setup;
    const turn = this.#turn!;
    if (isHeld(turn)) await this.#tell();
    this.#attempt?.outbox.close();
    if (!isHeld(turn)) return isDurable ? 'left' : 'requeueing';
    if (this.#error instanceof StaleFenceError || isDurable) {
      await turn.release({ retry: true });
      return isDurable ? 'returned' : 'requeueing';
    }
    if (this.#work.attempt < this.#setup.maxAttempts && !this.#setup.stopping.aborted) {
      this.#work = { ...this.#work, attempt: this.#work.attempt + 1 };
      return 'opening';
    }
    await turn.release();
    this.#setup.dropped(this.#work, `it failed ${this.#work.attempt} times`);
    return 'dropped';
  }

  /** The hooks, the replies they send, and the time before the next attempt. */
  async #tell(): Promise<void> {
    const { clock, stopping } = this.#setup;
    const { number, outbox } = this.#attempt ?? { number: this.#work.attempt, outbox: undefined };
    await outbox?.flush().catch(() => {});
    await this.#setup.failed(this.#error, this.#attempt, this.#work);
    await outbox?.flush().catch(() => {});
    const delayMs = this.#setup.retryDelayMs(number);
    if (delayMs > 0) await pause(clock, delayMs, stopping, this.#turn!.signal);
  }

  async #requeue(): Promise<TurnState> {
    const { coordinator, clock, stopping } = this.#setup;
    while (!stopping.aborted) {
      try {
        const ticket = await coordinator.reserve(this.#work.ticket.key);
        this.#work = { ...this.#work, ticket, attempt: this.#work.attempt + (this.#turn === undefined ? 0 : 1) };
        this.#turn = undefined;
        return 'waiting';
      } catch {
        await pause(clock, REQUEUE_DELAY_MS, stopping);
      }
    }
    this.#setup.dropped(this.#work, 'the bot stopped, and its coordinator does not keep messages');
    return 'dropped';
  }
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
