import {
  BadInputError,
  ConfigError,
  checkOptionNames,
  LeaseLostError,
  LifecycleError,
  TicketError,
} from '../errors.js';
import { checkEvent, Events } from './events.js';
import { type Hold, type Lead, Turn } from './held.js';
import { type CoordinatorOptions, OPTION_NAMES, type Settings, settle, text, whole, within } from './options.js';
import { crashed } from './refusals.js';
import { Seat, type SeatHost } from './Seat.js';
import type { Adoption, Op, ParkedView, Store, Waiting } from './store.js';
import type {
  AcquireTurnOptions,
  AdoptedMessage,
  CoordinatorEvents,
  Leadership,
  Mailroom,
  MailTurn,
  Pace,
  ParkedMessage,
  Ticket,
  WaitingMessage,
} from './types.js';
import type { Place } from './waiting.js';

export interface StoreCoordinatorOptions extends CoordinatorOptions {
  /** One store for each shard. All replicas of a mesh must have the same number. */
  stores: readonly Store[];
}

/** A ticket as handed out: plain data. The epoch tells a ticket of an earlier life from one of this. */
interface SeatTicket extends Ticket {
  readonly epoch: number;
}

/** A Mailroom of any Store: the only protocol engine there is. Keys are spread over its stores by their hash. */
export class StoreCoordinator implements Mailroom {
  readonly replicaId: string;
  readonly #settings: Settings;
  readonly #seats: readonly Seat[];
  /** The one seat where there is one shard. */
  readonly #only: Seat | undefined;
  readonly #events = new Events<CoordinatorEvents>();
  readonly #inbox = new Events<{ adopted: AdoptedMessage }>();
  #starting: Promise<void> | undefined;
  /** Counts starts and stops: a start that was overtaken may not join, nor end a newer one. */
  #generation = 0;
  #stopping: Promise<void> | undefined;
  #whenDead: ((error: Error) => void)[] = [];
  #wasReplaced = false;
  #hasAdopted = false;
  #downSinceMs: number | undefined;

  constructor(options: StoreCoordinatorOptions) {
    // A coordinator that extends this one has options of its own.
    if (new.target === StoreCoordinator)
      checkOptionNames('StoreCoordinator', options, { ...OPTION_NAMES, stores: true });
    this.#settings = settle(options);
    if (!Array.isArray(options.stores) || options.stores.length === 0) {
      throw new ConfigError('stores is empty: expected one Store for each shard.');
    }
    this.replicaId = this.#settings.replicaId;
    const host = this.#host(options.stores.length);
    this.#seats = options.stores.map((store) => new Seat(host, store));
    this.#only = this.#seats.length === 1 ? this.#seats[0] : undefined;
  }

  #host(shards: number): SeatHost {
    return {
      settings: this.#settings,
      shards,
      adopts: () => this.#inbox.count('adopted') > 0,
      hasAdopted: () => this.#hasAdopted,
      emit: (event, payload) => this.#events.emit(event, payload),
      adopted: (place, message) => this.#adopted(place, message),
      wentDown: (error) => this.#wentDown(error),
      cameBack: () => this.#cameBack(),
      wasReplaced: () => this.#replaced(),
    };
  }

  start(): Promise<void> {
    if (this.#wasReplaced) return Promise.reject(new LeaseLostError('replaced'));
    this.#starting ??= this.#orDie(this.#start());
    return this.#starting;
  }

  async #start(): Promise<void> {
    this.#generation += 1;
    const generation = this.#generation;
    await this.#stopping;
    if (this.#generation !== generation) throw this.#notRunning();
    this.#stopping = undefined;
    const results = await Promise.allSettled(this.#seats.map((seat) => seat.start()));
    const failed = results.find((result) => result.status === 'rejected');
    if (failed === undefined) return;
    if (this.#generation !== generation) throw failed.reason;
    this.#starting = undefined;
    await Promise.all(this.#seats.map((seat) => seat.stop()));
    throw failed.reason;
  }

  stop(): Promise<void> {
    if (this.#starting === undefined) return this.#stopping ?? Promise.resolve();
    this.#starting.catch(() => {});
    this.#starting = undefined;
    this.#generation += 1;
    this.#downSinceMs = undefined;
    // A crash meanwhile leaves nothing to stop.
    const stopping = this.#orDie(
      Promise.all([this.#stopping, ...this.#seats.map((seat) => seat.stop())]).then(() => {}),
    ).catch(() => {});
    this.#stopping = stopping;
    return stopping;
  }

  /** Ends as a crash would: nothing is handed over, every signal aborts with `expired`. Returns the epochs it had. */
  protected die(): number[] {
    const epochs = this.#seats.map((seat) => seat.epoch);
    this.#starting?.catch(() => {});
    this.#starting = undefined;
    for (const seat of this.#seats) seat.die();
    const error = new LifecycleError('stopped', 'The replica crashed meanwhile.');
    for (const end of this.#whenDead.splice(0)) end(error);
    return epochs;
  }

  /** As `promise`, but a crash ends it: what a dead replica waits for never comes. */
  #orDie(promise: Promise<void>): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#whenDead.push(reject);
      const forget = (): void => {
        this.#whenDead = this.#whenDead.filter((each) => each !== reject);
      };
      promise.finally(forget).then(resolve, reject);
    });
  }

  reserve(key: string): Promise<Ticket> {
    return this.#take(() => ({ op: 'reserve', key: chat(key) })) as Promise<Ticket>;
  }

  accept(key: string, message: { id?: string; body: string }): Promise<Ticket | null> {
    const { maxAttempts, dedupeMs } = this.#settings;
    return this.#take(() => {
      const { id, body } = checkMessage(message);
      return { op: 'accept', key: chat(key), id, body, maxAttempts, dedupeMs };
    });
  }

  /** What `makeOp` throws rejects the promise: bad input is told like every other refusal. */
  #take(makeOp: () => Op): Promise<Ticket | null> {
    return new Promise((resolve, reject) => {
      const op = makeOp();
      const seat = this.#seatOf(op.key);
      seat.take(op, (place) => resolve(place === null ? null : ticketOf(place, seat.epoch)), reject);
    });
  }

  acquireTurn(ticket: Ticket, wanted?: AcquireTurnOptions | null): Promise<MailTurn> {
    const options = wanted ?? {};
    // Not an async function: each await on the way to a turn is one more lap of the queue of microtasks.
    try {
      const [seat, place] = this.#findFree('acquireTurn()', ticket);
      const problem = badOptions(options);
      if (problem === undefined) return seat.acquire(place, options) as Promise<Turn>;
      seat.withdraw(place);
      throw problem;
    } catch (error) {
      return Promise.reject(error);
    }
  }

  /** The place of a ticket that was not acquired yet, and whose it is. */
  #findFree(call: string, ticket: Ticket): [Seat, Place] {
    const [seat, place] = this.#find(call, ticket);
    if (place.stage === 'open' || place.stage === 'lost') return [seat, place];
    throw place.error ?? usedUp(place.seq);
  }

  #find(call: string, ticket: Ticket): [Seat, Place] {
    const { key, seq, epoch } = checkTicket(call, ticket);
    const seat = this.#only ?? this.#seatOf(chat(key));
    const place = seat.find(key, seq, epoch);
    if (place instanceof Error) throw place;
    if (place === undefined && epoch !== undefined && epoch === seat.epoch) throw usedUp(seq);
    if (place === undefined) {
      if (seat.epoch === 0) throw this.#notRunning();
      const message = `Ticket ${seq} was not handed out by this replica: only the coordinator that reserved it can acquire it.`;
      throw new TicketError('ticket-unknown', message);
    }
    return [seat, place];
  }

  #notRunning(): Error {
    if (this.#wasReplaced) return new LeaseLostError('replaced');
    if (this.#seats[0]?.isDead === true) return crashed();
    if (this.#stopping === undefined)
      return new LifecycleError('not-started', 'The coordinator is not running: call start() first.');
    return new LifecycleError('stopped', 'The coordinator was stopped: call start() to join again.');
  }

  async lead(name: string, wanted?: { signal?: AbortSignal } | null): Promise<Leadership> {
    const key = leader(name);
    const options = wanted ?? {};
    const { signal } = options;
    if (signal !== undefined && !(signal instanceof AbortSignal)) {
      throw new ConfigError('lead(): signal is not an AbortSignal.');
    }
    const seat = this.#seatOf(key);
    for (;;) {
      signal?.throwIfAborted();
      try {
        const place = await this.#candidate(seat, key, signal);
        const hold = await seat.acquire(place, options, true);
        return this.#elected(hold);
      } catch (error) {
        if (signal?.aborted || !mayPass(error)) throw error;
      }
      await abortable(seat.up(), signal);
    }
  }

  /** A place in the queue of candidates. When the signal aborts meanwhile, the place is withdrawn as soon as it is known. */
  #candidate(seat: Seat, key: string, signal: AbortSignal | undefined): Promise<Place> {
    return new Promise((resolve, reject) => {
      const onAbort = (): void => reject(signal?.reason);
      signal?.addEventListener('abort', onAbort, { once: true });
      seat.take(
        { op: 'reserve', key },
        (place) => {
          signal?.removeEventListener('abort', onAbort);
          if (place === null) reject(new Error('A reservation without a place.'));
          else if (signal?.aborted) seat.withdraw(place);
          else resolve(place);
        },
        (error) => {
          signal?.removeEventListener('abort', onAbort);
          reject(error);
        },
      );
    });
  }

  async tryLead(name: string): Promise<Leadership | null> {
    const key = leader(name);
    const seat = this.#seatOf(key);
    const place = await new Promise<Place | null>((resolve, reject) => {
      seat.take({ op: 'try', key }, resolve, reject);
    });
    return place === null ? null : this.#elected(await seat.acquire(place, {}));
  }

  #elected(hold: Hold): Leadership {
    this.#events.emit('elected', { name: hold.name, term: hold.fence });
    return hold as Lead;
  }

  on<E extends keyof CoordinatorEvents>(event: E, listener: (payload: CoordinatorEvents[E]) => void): () => void {
    checkEvent(event);
    return this.#events.on(event, listener);
  }

  onAdopted(listener: (message: AdoptedMessage) => void): () => void {
    const off = this.#inbox.on('adopted', listener);
    this.#hasAdopted = true;
    this.#tellAdopting();
    return () => {
      off();
      this.#tellAdopting();
    };
  }

  // ── Mailroom ───────────────────────────────────────────────────────────────────────────────────────────────────────

  isGranted(ticket: Ticket): boolean {
    const { key, seq, epoch } = checkTicket('isGranted()', ticket);
    const place = this.#seatOf(chat(key)).find(key, seq, epoch);
    return place !== undefined && !(place instanceof Error) && place.stage === 'open' && place.fence !== 0;
  }

  async finish(ticket: Ticket, onLanded?: () => void): Promise<void> {
    const [seat, place] = this.#findFree('finish()', ticket);
    if (place.stage === 'lost') throw place.error ?? new LeaseLostError('superseded');
    await seat.finish(place, onLanded);
  }

  passWaiting(): void {
    for (const seat of this.#seats) seat.passWaiting();
  }

  async waiting(turn: MailTurn, limit = MOST_WAITING): Promise<readonly WaitingMessage[]> {
    const { seq, key } = checkTurn('waiting()', turn);
    const most = whole('limit', limit, 0, MOST_WAITING);
    const stored = chat(key);
    const found = await this.#seatOf(stored).ask('waiting()', (store) =>
      store.waiting({ key: stored, seq, limit: most }),
    );
    return found.map(waitingMessage);
  }

  async tell(key: string, note: string): Promise<boolean> {
    const stored = chat(key);
    if (text('note', note).length > LONGEST_NOTE) {
      throw new BadInputError(`tell(): note has ${note.length} characters: expected up to ${LONGEST_NOTE}.`);
    }
    return this.#seatOf(stored).order({ op: 'tell', key: stored, note });
  }

  onTold(turn: MailTurn, listener: (note: string) => void): () => void {
    return checkTurn('onTold()', turn).onTold(listener);
  }

  async parked(): Promise<readonly ParkedMessage[]> {
    const views = await Promise.all(this.#seats.map((seat) => seat.ask('parked()', (store) => store.inspect())));
    return views.flatMap((view) => view.parked.map(parkedMessage));
  }

  async replay(key: string, seq: number): Promise<boolean> {
    const { maxAttempts, dedupeMs } = this.#settings;
    const stored = chat(key);
    return this.#seatOf(stored).order({ op: 'replay', key: stored, seq: checkSeq(seq), maxAttempts, dedupeMs });
  }

  async drop(key: string, seq: number): Promise<boolean> {
    const stored = chat(key);
    return this.#seatOf(stored).order({ op: 'drop', key: stored, seq: checkSeq(seq) });
  }

  async pace(name: string, pace: Pace): Promise<number> {
    const costMs = within('costMs', pace?.costMs, 0, LONGEST_PACE_MS);
    const burstMs = within('burstMs', pace.burstMs ?? 0, 0, LONGEST_PACE_MS);
    const pauseMs = within('pauseMs', pace.pauseMs ?? 0, 0, Number.MAX_SAFE_INTEGER);
    const seat = this.#seatOf(text('name', name));
    const { waitMs } = await seat.ask('pace()', (store) => store.pace({ name, costMs, burstMs, pauseMs }));
    return waitMs;
  }

  // ── What the seats tell ────────────────────────────────────────────────────────────────────────────────────────────

  #tellAdopting(): void {
    for (const seat of this.#seats) seat.beatNow();
  }

  #adopted(place: Place, message: Adoption): void {
    const ticket = ticketOf(place, this.#seatOf(place.key).epoch);
    const { id, body, attempt } = message;
    this.#inbox.emit('adopted', { ticket, ...(id === null ? {} : { id }), body, attempt });
  }

  #wentDown(error: Error): void {
    if (this.#downSinceMs !== undefined) return;
    this.#downSinceMs = this.#settings.clock.monotonicMs();
    this.#events.emit('unavailable', { error });
  }

  #cameBack(): void {
    if (this.#downSinceMs === undefined || this.#seats.some((seat) => seat.isDown)) return;
    const downMs = this.#settings.clock.monotonicMs() - this.#downSinceMs;
    this.#downSinceMs = undefined;
    this.#events.emit('available', { downMs });
  }

  #replaced(): void {
    if (this.#wasReplaced) return;
    this.#wasReplaced = true;
    for (const seat of this.#seats) seat.endReplaced();
    this.#events.emit('replaced', {});
  }

  #seatOf(key: string): Seat {
    return this.#only ?? (this.#seats[hash(key) % this.#seats.length] as Seat);
  }
}

const MOST_WAITING = 256;
const LONGEST_NOTE = 65_536;
const LONGEST_PACE_MS = 3_600_000;

/** The key in the store. Chats and leaderships live in two spaces of it: no chat's key is a leader's name. */
export function chat(key: unknown): string {
  return `c:${text('key', key)}`;
}

function leader(name: unknown): string {
  return `l:${text('name', name)}`;
}

/** FNV-1a over UTF-16 code units. Pinned: another hash is another format. */
function hash(key: string): number {
  let value = 0x811c9dc5;
  for (let at = 0; at < key.length; at += 1) value = Math.imul(value ^ key.charCodeAt(at), 0x01000193);
  return value >>> 0;
}

function checkMessage(message: unknown): { id: string | null; body: string } {
  const { id, body } = (typeof message === 'object' && message !== null ? message : {}) as {
    id?: unknown;
    body?: unknown;
  };
  return { id: id === undefined ? null : text('message.id', id), body: text('message.body', body) };
}

function ticketOf(place: Place, epoch: number): SeatTicket {
  return { key: place.name, seq: place.seq, epoch };
}

function checkTicket(call: string, ticket: unknown): { key: string; seq: number; epoch: number | undefined } {
  const { key, seq, epoch } = (typeof ticket === 'object' && ticket !== null ? ticket : {}) as Partial<SeatTicket>;
  const isTicket = typeof key === 'string' && Number.isSafeInteger(seq);
  const isEpoch = epoch === undefined || Number.isSafeInteger(epoch);
  if (isTicket && isEpoch) return { key, seq: seq as number, epoch };
  throw new BadInputError(`${call}: expected a ticket { key, seq } as reserve() or accept() gave it.`);
}

/** Turns of other coordinators tell nothing about this store's tickets. */
function checkTurn(call: string, turn: unknown): Turn {
  if (turn instanceof Turn) return turn;
  throw new BadInputError(`${call}: expected a turn as acquireTurn() of this coordinator gave it.`);
}

function checkSeq(seq: unknown): number {
  if (Number.isSafeInteger(seq)) return seq as number;
  throw new BadInputError('seq: expected the number of a message as parked() told it.');
}

function waitingMessage({ seq, id, body, attempt }: Waiting): WaitingMessage {
  return { seq, ...(id === null ? {} : { id }), body, attempt };
}

function parkedMessage({ key, seq, id, body, attempts, error }: ParkedView): ParkedMessage {
  const own = { key: key.slice(2), seq, body, attempts };
  return { ...own, ...(id === null ? {} : { id }), ...(error === null ? {} : { error }) };
}

function usedUp(seq: number): TicketError {
  return new TicketError(
    'ticket-used',
    `Ticket ${seq} was already acquired, released or withdrawn: reserve a new one.`,
  );
}

function badOptions({ timeoutMs, signal }: AcquireTurnOptions): Error | undefined {
  if (timeoutMs !== undefined && !(typeof timeoutMs === 'number' && timeoutMs >= 0)) {
    return new ConfigError(
      `timeoutMs is ${String(timeoutMs)}: expected a number of milliseconds from 0 up. The ticket is withdrawn.`,
    );
  }
  if (signal !== undefined && !(signal instanceof AbortSignal)) {
    return new ConfigError('signal is not an AbortSignal. The ticket is withdrawn.');
  }
  return undefined;
}

/** Whether a campaign goes on after this: the place was lost, or the backend is away. */
function mayPass(error: unknown): boolean {
  if (error instanceof LeaseLostError) return error.reason === 'superseded' || error.reason === 'expired';
  return (error as { code?: unknown } | null)?.code === 'unavailable';
}

function abortable(promise: Promise<void>, signal: AbortSignal | undefined): Promise<void> {
  if (signal === undefined) return promise;
  return new Promise((resolve, reject) => {
    const onAbort = (): void => reject(signal.reason);
    signal.addEventListener('abort', onAbort, { once: true });
    void promise.then(() => {
      signal.removeEventListener('abort', onAbort);
      resolve();
    });
  });
}
