import type {
  AcquireTurnOptions,
  AdoptedMessage,
  ChatTurn,
  Coordinator,
  CoordinatorEvents,
  Inbox,
  Leadership,
  Ticket,
} from '../coordination/types.js';
import type { HistoryEvent } from './history.js';

/** What one replica does, as events for `checkHistory`. */
export interface RecorderOptions {
  /** One monotonic clock for all replicas of the run: virtual time, or `hrtime` of one machine. */
  readonly nowMs: () => number;
  /** Hears of each event at once: a killed process must not take its history along. */
  readonly record: (event: HistoryEvent) => void;
  /** Names the replica. Two starts with one replicaId need two names. Default: the replicaId. */
  readonly name?: string;
}

/**
 * A coordinator that records what its callers see and do. Says that a turn is held only where `assertHeld` is called on it:
 * call it often. A released turn of a message counts as its handling to the end. What was parked has to be added from
 * a look at the record.
 */
export class Recorder implements Coordinator, Inbox {
  readonly replicaId: string;
  readonly #inner: Coordinator & Inbox;
  readonly #options: RecorderOptions;
  readonly #name: string;
  /** Attempts by key and seq: two shards may give one number. */
  readonly #messages = new Map<string, number>();
  /** Keys and fences of what was let go: a second release is none. */
  readonly #released = new Set<string>();
  #calls = 0;

  constructor(inner: Coordinator & Inbox, options: RecorderOptions) {
    this.#inner = inner;
    this.#options = options;
    this.replicaId = inner.replicaId;
    this.#name = options.name ?? inner.replicaId;
  }

  start(): Promise<void> {
    return this.#inner.start();
  }

  stop(): Promise<void> {
    return this.#inner.stop();
  }

  on<E extends keyof CoordinatorEvents>(event: E, listener: (payload: CoordinatorEvents[E]) => void): () => void {
    return this.#inner.on(event, listener);
  }

  async reserve(key: string): Promise<Ticket> {
    const asked = this.#ask();
    const ticket = await this.#inner.reserve(key);
    this.#record({ kind: 'reserved', ...this.#at(key), ...asked, seq: ticket.seq });
    return ticket;
  }

  async accept(key: string, message: { id?: string; body: string }): Promise<Ticket | null> {
    const asked = this.#ask();
    const ticket = await this.#inner.accept(key, message);
    if (ticket === null) return null;
    this.#messages.set(nameOf(key, ticket.seq), 1);
    const { id } = message;
    this.#record({
      kind: 'accepted',
      ...this.#at(key),
      ...asked,
      seq: ticket.seq,
      ...(id === undefined ? {} : { id }),
    });
    return ticket;
  }

  onAdopted(listener: (message: AdoptedMessage) => void): () => void {
    return this.#inner.onAdopted((message) => {
      this.#messages.set(nameOf(message.ticket.key, message.ticket.seq), message.attempt);
      listener(message);
    });
  }

  async acquireTurn(ticket: Ticket, options?: AcquireTurnOptions): Promise<ChatTurn> {
    const { key, seq } = ticket;
    try {
      const turn = await this.#inner.acquireTurn(ticket, options);
      const attempt = this.#messages.get(nameOf(key, seq));
      this.#granted(key, seq, turn.fence, turn.signal, attempt);
      return this.#turn(turn, seq);
    } catch (error) {
      if (isGivenUp(error, options?.signal)) this.#record({ kind: 'withdrawn', ...this.#at(key), seq });
      else this.#record({ kind: 'lost', ...this.#at(key), seq, why: String(error) });
      throw error;
    }
  }

  async lead(name: string, options?: { signal?: AbortSignal }): Promise<Leadership> {
    return this.#leadership(await this.#inner.lead(name, options));
  }

  async tryLead(name: string): Promise<Leadership | null> {
    const leadership = await this.#inner.tryLead(name);
    return leadership === null ? null : this.#leadership(leadership);
  }

  #turn(turn: ChatTurn, seq: number): ChatTurn {
    const { key, fence, signal } = turn;
    const isMessage = this.#messages.has(nameOf(key, seq));
    const release = (options?: { retry?: boolean }): Promise<void> => {
      if (this.#letGo(key, fence, signal) && isMessage && options?.retry !== true) {
        this.#record({ kind: 'handled', ...this.#at(key), seq });
      }
      return turn.release(options);
    };
    return {
      key,
      fence,
      signal,
      assertHeld: () => this.#assertHeld(key, fence, turn),
      release,
      [Symbol.asyncDispose]: () => release(),
    };
  }

  /** A leadership shows no place: its order is that of its terms. */
  #leadership(leadership: Leadership): Leadership {
    const { name, term, signal } = leadership;
    const key = `leader of ${name}`;
    this.#granted(key, term, term, signal);
    const resign = (): Promise<void> => {
      this.#letGo(key, term, signal);
      return leadership.resign();
    };
    return {
      name,
      term,
      signal,
      assertHeld: () => this.#assertHeld(key, term, leadership),
      resign,
      [Symbol.asyncDispose]: resign,
    };
  }

  #granted(key: string, seq: number, fence: number, signal: AbortSignal, attempt?: number): void {
    const message = attempt === undefined ? {} : { attempt };
    this.#record({ kind: 'granted', ...this.#at(key), seq, fence, ...message });
    signal.addEventListener('abort', () => {
      this.#record({ kind: 'ended', ...this.#at(key), fence, why: String(signal.reason) });
    });
  }

  #assertHeld(key: string, fence: number, held: { assertHeld(): void }): void {
    held.assertHeld();
    this.#record({ kind: 'held', ...this.#at(key), fence });
  }

  /** Whether it was still held. */
  #letGo(key: string, fence: number, signal: AbortSignal): boolean {
    const name = nameOf(key, fence);
    if (signal.aborted || this.#released.has(name)) return false;
    this.#released.add(name);
    this.#record({ kind: 'ended', ...this.#at(key), fence, why: 'released' });
    return true;
  }

  #ask(): { call: number; calledAt: number } {
    this.#calls += 1;
    return { call: this.#calls, calledAt: this.#options.nowMs() };
  }

  #at(key: string): { at: number; replica: string; key: string } {
    return { at: this.#options.nowMs(), replica: this.#name, key };
  }

  #record(event: HistoryEvent): void {
    this.#options.record(event);
  }
}

function nameOf(key: string, number: number): string {
  return `${number} ${key}`;
}

function isGivenUp(error: unknown, signal: AbortSignal | undefined): boolean {
  if (signal?.aborted && error === signal.reason) return true;
  return (error as { code?: unknown } | null)?.code === 'timeout';
}
