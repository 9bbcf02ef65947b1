import type { Coordinator, Leadership } from '../coordination/types.js';
import {
  BadInputError,
  CoordinationUnavailableError,
  checkOptionNames,
  LeaseLostError,
  LifecycleError,
  StaleFenceError,
} from '../errors.js';
import type { Load } from '../pipeline/Load.js';
import { pause } from '../pipeline/pause.js';
import { broadcastKey, RESERVED } from '../pipeline/reserved.js';
import type { Reply } from '../providers/provider.js';
import { isPlainObject, kindOf, notPlain } from '../state/plain-data.js';
import type { StateStore } from '../state/state-store.js';
import type { Clock } from '../time/clock.js';
import type { Context } from './Context.js';
import type { Enqueue } from './schedule/Job.js';

/** The job by whose name broadcast messages reach their chats. */
export const BROADCAST = `${RESERVED}broadcast`;

/** The format of a stored position. */
const POSITION_VERSION = 1;
/** How many may wait for their chats' turns: each of them is in every heartbeat. */
const MOST_IN_HAND = 64;
const SAVE_EVERY = 100;
const SAVE_EVERY_MS = 1_000;
const RETRY_MS = 1_000;

export interface BroadcastOptions {
  /** Names the broadcast in the whole mesh: the same id goes on where it stopped, and one that is over does nothing. */
  id: string;
  /** Hears how far it is, as often as a position is kept. One that throws disturbs nobody. */
  onProgress?: (progress: BroadcastProgress) => void;
  /** Ends the broadcast; the position is kept. */
  signal?: AbortSignal;
  /**
   * Waited for before each chat: the place for a limit of the platform's. What it throws ends the broadcast; the position is
   * kept.
   */
  pace?: (chat: string, signal: AbortSignal) => Promise<void> | void;
}

const OPTION_NAMES: { readonly [Name in keyof Required<BroadcastOptions>]: true } = {
  id: true,
  onProgress: true,
  signal: true,
  pace: true,
};

export interface BroadcastProgress {
  /** How many chats are over: their message is taken in, or there is none for them. */
  readonly done: number;
  /** How many of those of this call were not sent at the first try. The mesh tries them again, and parks them at last. */
  readonly failed: number;
}

/** The text, or what makes it for a chat; undefined leaves the chat out. Plain JSON data. */
export type BroadcastMessage = string | Reply | ((chat: string) => Said | Promise<Said>);
type Said = string | Reply | undefined;

export type Chats = Iterable<string> | AsyncIterable<string>;

export interface BroadcastSetup {
  readonly coordinator: Coordinator;
  readonly store: StateStore;
  readonly clock: Clock;
  readonly load: Load;
  readonly enqueue: Enqueue;
  /** Aborts when the Bot stops. */
  readonly stopping: AbortSignal;
  isStarted(): boolean;
  /** Whether this replica can send. */
  isConnected(): boolean;
}

interface Position {
  readonly v: typeof POSITION_VERSION;
  readonly done: number;
  readonly isOver: boolean;
}

/** The broadcasts of a Bot. */
export class Broadcasts {
  readonly #setup: BroadcastSetup;
  /** What waits here for the end of a message's first try, by chat and id. */
  readonly #waiting = new Map<string, (isSent: boolean) => void>();

  constructor(setup: BroadcastSetup) {
    this.#setup = setup;
  }

  /** Handles a broadcast message in its chat's turn. */
  readonly handle = async (ctx: Context): Promise<void> => {
    await ctx.reply(ctx.message.job?.data as Reply);
    this.#end(ctx.message.chat, ctx.message.id, true);
  };

  /** Hears that a message is not in hand here any more, however it ended. */
  ended(chat: string, id: string | undefined): void {
    this.#end(chat, id, false);
  }

  /** Whether somebody wants to hear of it. */
  get isWaiting(): boolean {
    return this.#waiting.size > 0;
  }

  async run(chats: Chats, message: BroadcastMessage, options: BroadcastOptions): Promise<BroadcastProgress> {
    check(chats, message, options);
    if (!this.#setup.isStarted()) {
      throw new LifecycleError('not-started', 'bot.broadcast(): The bot is not started. Call start() first.');
    }
    const { id, signal } = options;
    const { coordinator, clock, load, stopping } = this.#setup;
    const ending = new AbortController();
    const onAbort = (): void => ending.abort(signal?.reason);
    const onStop = (): void => ending.abort(stopped(id));
    if (signal?.aborted) onAbort();
    if (stopping.aborted) onStop();
    signal?.addEventListener('abort', onAbort);
    stopping.addEventListener('abort', onStop);
    const course = new Course(chats, message, options);
    try {
      for (;;) {
        await this.#connected(ending.signal);
        const leadership = await coordinator.lead(`broadcast:${id}`, { signal: ending.signal });
        // A stop waits until the position is kept.
        load.running++;
        try {
          await this.#lead(course, leadership, ending.signal);
          return course.progress;
        } catch (error) {
          if (ending.signal.aborted || !isLoss(error)) throw error;
        } finally {
          await leadership.resign();
          load.running--;
          load.changed();
        }
        await pause(clock, RETRY_MS, ending.signal);
      }
    } finally {
      signal?.removeEventListener('abort', onAbort);
      stopping.removeEventListener('abort', onStop);
      await course.close();
    }
  }

  async #connected(signal: AbortSignal): Promise<void> {
    while (!this.#setup.isConnected()) {
      signal.throwIfAborted();
      await pause(this.#setup.clock, RETRY_MS, signal);
    }
    signal.throwIfAborted();
  }

  async #lead(course: Course, leadership: Leadership, signal: AbortSignal): Promise<void> {
    const { store, clock } = this.#setup;
    const key = broadcastKey(course.options.id);
    const position = read((await store.load(key))?.value);
    if (position.isOver) return course.goTo(position.done);
    await course.goTo(position.done);
    let saved = { done: position.done, atMs: clock.monotonicMs() };
    const save = async (isOver: boolean): Promise<void> => {
      leadership.assertHeld();
      const { done } = course.progress;
      await store.save(key, { v: POSITION_VERSION, done, isOver } satisfies Position, leadership.term);
      saved = { done, atMs: clock.monotonicMs() };
      course.tell();
    };
    try {
      for (;;) {
        const chat = await course.next();
        if (chat === undefined) break;
        await this.#pass(course, chat, leadership, signal);
        const isTime = clock.monotonicMs() - saved.atMs >= SAVE_EVERY_MS;
        if (isTime || course.progress.done - saved.done >= SAVE_EVERY) await save(false);
      }
      await course.until(0, leadership.signal, signal);
    } catch (error) {
      // So that whoever goes on begins where this one ended. If it fails, ids keep messages from going out twice.
      if (!isLoss(error)) await save(false).catch(() => {});
      throw error;
    }
    await save(true);
  }

  /** Puts the message into one chat. */
  async #pass(course: Course, chat: string, leadership: Leadership, signal: AbortSignal): Promise<void> {
    const { clock, enqueue } = this.#setup;
    const { id, pace } = course.options;
    await course.until(MOST_IN_HAND - 1, leadership.signal, signal);
    const reply = await course.replyFor(chat);
    if (reply === undefined) return course.passed();
    await pace?.(chat, signal);
    for (;;) {
      signal.throwIfAborted();
      leadership.assertHeld();
      if (!this.#setup.isConnected()) throw new LeaseLostError('stopped', 'this replica lost its connection');
      const first = this.#firstTry(chat, `${RESERVED}job:${idOf(id)}`);
      try {
        const outcome = await enqueue(chat, { name: BROADCAST, dueMs: clock.wallMs(), data: reply }, idOf(id));
        if (outcome === 'accepted') course.inHand(first.ended);
        else first.forget();
        return course.passed();
      } catch (error) {
        first.forget();
        if (!(error instanceof CoordinationUnavailableError)) throw error;
        await pause(clock, RETRY_MS, signal, leadership.signal);
      }
    }
  }

  #firstTry(chat: string, id: string): { ended: Promise<boolean>; forget: () => void } {
    const name = nameOf(chat, id);
    // A chat that is in the list twice is taken in once: the first waits.
    if (this.#waiting.has(name)) return { ended: Promise.resolve(true), forget: () => {} };
    const ended = new Promise<boolean>((resolve) => this.#waiting.set(name, resolve));
    return { ended, forget: () => void this.#waiting.delete(name) };
  }

  #end(chat: string, id: string | undefined, isSent: boolean): void {
    if (id === undefined || this.#waiting.size === 0) return;
    const name = nameOf(chat, id);
    this.#waiting.get(name)?.(isSent);
    this.#waiting.delete(name);
  }
}

/** How far one call has come. */
class Course {
  readonly options: BroadcastOptions;
  readonly #message: BroadcastMessage;
  readonly #iterator: Iterator<unknown> | AsyncIterator<unknown>;
  /** The chat that was taken from the iterator and is not over. */
  #current: { chat: string } | undefined;
  #done = 0;
  #failed = 0;
  #inHand = 0;
  #watchers: (() => void)[] = [];

  constructor(chats: Chats, message: BroadcastMessage, options: BroadcastOptions) {
    this.options = options;
    this.#message = message;
    this.#iterator = Symbol.asyncIterator in chats ? chats[Symbol.asyncIterator]() : chats[Symbol.iterator]();
  }

  get progress(): BroadcastProgress {
    return { done: this.#done, failed: this.#failed };
  }

  /** The chat that is next, the same until it is over. Undefined at the end. */
  async next(): Promise<string | undefined> {
    if (this.#current === undefined) {
      const { done, value } = await this.#iterator.next();
      if (done) return undefined;
      this.#current = { chat: checkChat(value, this.#done) };
    }
    return this.#current.chat;
  }

  passed(): void {
    this.#current = undefined;
    this.#done++;
  }

  /** Skips what is over already. */
  async goTo(done: number): Promise<void> {
    while (this.#done < done && (await this.next()) !== undefined) this.passed();
  }

  async replyFor(chat: string): Promise<Reply | undefined> {
    const said = typeof this.#message === 'function' ? await this.#message(chat) : this.#message;
    return said === undefined ? undefined : checkReply(said);
  }

  inHand(ended: Promise<boolean>): void {
    this.#inHand++;
    void ended.then((isSent) => {
      this.#inHand--;
      if (!isSent) this.#failed++;
      for (const watcher of this.#watchers.splice(0)) watcher();
    });
  }

  /** Resolves when no more than `most` wait for their turns, or a signal aborts: then it rejects with the reason. */
  async until(most: number, ...signals: AbortSignal[]): Promise<void> {
    while (this.#inHand > most) {
      for (const signal of signals) signal.throwIfAborted();
      await new Promise<void>((resolve) => {
        const over = (): void => {
          for (const signal of signals) signal.removeEventListener('abort', over);
          resolve();
        };
        this.#watchers.push(over);
        for (const signal of signals) signal.addEventListener('abort', over);
      });
    }
    for (const signal of signals) signal.throwIfAborted();
  }

  tell(): void {
    try {
      this.options.onProgress?.(this.progress);
    } catch {
      // Its own trouble.
    }
  }

  async close(): Promise<void> {
    try {
      await this.#iterator.return?.();
    } catch {
      // What the list does at its end is no part of the broadcast.
    }
  }
}

function read(value: unknown): Position {
  if (value === undefined) return { v: POSITION_VERSION, done: 0, isOver: false };
  const position = value as Partial<Position> | null;
  if (position?.v === POSITION_VERSION && Number.isSafeInteger(position.done)) return position as Position;
  throw new BadInputError(
    `stored broadcast: format ${JSON.stringify(position?.v) ?? 'none'}, this replica knows ${POSITION_VERSION}`,
  );
}

function check(chats: unknown, message: unknown, options: BroadcastOptions): void {
  const { id, signal } = options ?? {};
  if (typeof id !== 'string' || id === '') {
    throw new BadInputError(
      'bot.broadcast(): no id. Pass { id }, another one for each broadcast, so that it can go on.',
    );
  }
  const where = `bot.broadcast(… { id: '${id}' })`;
  checkOptionNames(where, options, OPTION_NAMES);
  const list = chats as Partial<Iterable<string> & AsyncIterable<string>> | null | undefined;
  const isList = typeof list === 'object' && (list?.[Symbol.iterator] ?? list?.[Symbol.asyncIterator]) !== undefined;
  if (!isList) throw new BadInputError(`${where}: expected a list of chats first.`);
  if (signal !== undefined && !(signal instanceof AbortSignal)) {
    throw new BadInputError(`${where}: signal is not an AbortSignal.`);
  }
  for (const name of ['onProgress', 'pace'] as const) {
    if (options[name] === undefined || typeof options[name] === 'function') continue;
    throw new BadInputError(`${where}: ${name} is ${kindOf(options[name])}: expected a function.`);
  }
  if (typeof message !== 'function') checkReply(message);
}

function checkReply(said: unknown): Reply {
  if (typeof said === 'string') return { text: said };
  if (!isPlainObject(said) || typeof said.text !== 'string') {
    throw new BadInputError('bot.broadcast(): expected a text, { text } or a function that makes one second.');
  }
  const problem = notPlain(said, 'message');
  if (problem !== undefined) throw new BadInputError(`bot.broadcast(): ${problem}: expected plain JSON data.`);
  return said as unknown as Reply;
}

function checkChat(chat: unknown, at: number): string {
  if (typeof chat === 'string' && chat !== '' && !chat.startsWith(RESERVED)) return chat;
  throw new BadInputError(`bot.broadcast(): chat ${at} of the list is no name of a chat, but ${typeof chat}.`);
}

const idOf = (id: string): string => JSON.stringify([BROADCAST, id]);
const nameOf = (chat: string, id: string): string => JSON.stringify([chat, id]);

function stopped(id: string): LifecycleError {
  return new LifecycleError(
    'stopped',
    `The bot stopped before the broadcast '${id}' was over. Its position is kept: call it again with the same id.`,
  );
}

/** Somebody else may go on with it, or this replica later. */
function isLoss(error: unknown): boolean {
  return (error instanceof LeaseLostError && error.reason !== 'replaced') || error instanceof StaleFenceError;
}
