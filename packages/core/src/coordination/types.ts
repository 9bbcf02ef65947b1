import type { LeaseLostReason } from '../errors.js';

/** A place in a key's FIFO. Plain data: it survives JSON, and belongs to the replica whose `reserve` gave it. */
export interface Ticket {
  readonly key: string;
  /** Grows with every reservation in the mesh. Says nothing about how many are ahead. */
  readonly seq: number;
}

export interface AcquireTurnOptions {
  /** How long to wait, in milliseconds from 0 up. Without it there is no limit. */
  timeoutMs?: number;
  /** Ends the wait with the signal's own reason. */
  signal?: AbortSignal;
}

/** A key held by this replica. Dispose of it (`await using`) or call `release`. */
export interface ChatTurn extends AsyncDisposable {
  readonly key: string;
  /** The fencing token: greater than that of every earlier grant of this key. Send it along with every write. */
  readonly fence: number;
  /** Aborts with a `LeaseLostError` the moment the turn is no longer surely held. Not after a plain `release`. */
  readonly signal: AbortSignal;
  /**
   * Reads the clocks now and throws `LeaseLostError` unless the turn is surely held. Call it before every side effect:
   * after a blocked event loop the signal aborts one tick too late. Says nothing about the moment after.
   */
  assertHeld(): void;
  /**
   * Hands the key to the next ticket in the same step. Idempotent. For an accepted message it marks the message done;
   * `{ retry: true }` puts it back at the head instead, with its attempt counted. Resolves when the store has answered,
   * or when this replica's lease is over (the release is then made good later, or the lease does it). Never rejects.
   */
  release(options?: { retry?: boolean }): Promise<void>;
}

/** A name led by this replica: a turn on a name instead of a chat. */
export interface Leadership extends AsyncDisposable {
  readonly name: string;
  /** The fencing token of this leadership; grows with every election. */
  readonly term: number;
  readonly signal: AbortSignal;
  assertHeld(): void;
  /** Lets the next candidate be elected at once. Idempotent; never rejects. */
  resign(): Promise<void>;
}

/** What a coordinator tells about itself, by event name. */
export interface CoordinatorEvents {
  /** The backend does not answer and local trust ran out: waiting calls were rejected, new ones fail at once. */
  unavailable: { error: Error };
  /** The backend answers again. */
  available: { downMs: number };
  /** A turn or leadership ended before it was let go. */
  lost: { kind: 'turn' | 'leadership'; key: string; fence: number; reason: LeaseLostReason };
  /** This replica was presumed dead and has joined again. */
  superseded: { epoch: number; successor: number };
  /**
   * The store was restarted, replaced or set back, and does not know these messages any more, which this replica had taken in
   * or over and not ended. One that another replica had taken over before may have been handled there.
   */
  forgotten: { messages: readonly Ticket[] };
  /** A newer start took this `replicaId`. This replica is done for good. */
  replaced: Record<string, never>;
  elected: { name: string; term: number };
  /** A heartbeat came late: a blocked event loop or a frozen process. */
  late: { lateMs: number };
  /** Nothing new is granted until every trust in the store's former life is over. */
  quarantine: { untilMs: number; cause: string };
  /** Pushed grants do not arrive; heartbeats repair it more slowly. */
  wakeDegraded: Record<string, never>;
  /** A ticket stood at the head unclaimed for too long and was given back. */
  ticketLeaked: { key: string; seq: number };
  /** A turn or leadership is held for longer than `heldWarnMs`. Told once a turn. */
  held: { key: string; fence: number; heldMs: number };
  /** A message failed too often. It is kept and listed, and blocks nobody. `error`: the last reason given, if any. */
  parked: { key: string; id: string | undefined; attempts: number; error?: string };
}

/** How one replica takes part in a mesh. One instance a replica. */
export interface Coordinator {
  /** Unique among the replicas that share the backend. */
  readonly replicaId: string;
  /**
   * Joins the mesh and begins heartbeats. Idempotent.
   *
   * @throws ConfigError (`config-mismatch`) when the mesh runs with other lease times, shards or format
   * @throws CoordinationUnavailableError when the backend does not answer
   */
  start(): Promise<void>;
  /**
   * Ends every turn and leadership held here (their signals abort with `stopped`), hands their keys and all waiting
   * tickets over at once, and stops heartbeats. Does not wait for handlers: drain them first. Idempotent.
   */
  stop(): Promise<void>;
  /**
   * Takes a place in `key`'s queue across all replicas, in the order of the calls, awaited or not.
   *
   * @throws CoordinationUnavailableError when the backend does not answer
   */
  reserve(key: string): Promise<Ticket>;
  /**
   * Waits until it is the ticket's turn, then holds the key. Tickets of replicas that died are skipped. A ticket whose
   * acquire was rejected or aborted is withdrawn: it blocks nobody.
   *
   * @throws LeaseLostError (`superseded`) when the ticket was skipped because this replica was presumed dead
   * @throws CoordinationUnavailableError on `timeout`, or when the backend is `unavailable`
   * @throws TicketError for a ticket that is not this replica's, or is used up
   */
  acquireTurn(ticket: Ticket, options?: AcquireTurnOptions): Promise<ChatTurn>;
  /** Campaigns until elected, also across outages. Rejects with the signal's reason when it aborts. */
  lead(name: string, options?: { signal?: AbortSignal }): Promise<Leadership>;
  /** One attempt: null when another replica leads, or while nothing may be granted. Leaves nothing behind. */
  tryLead(name: string): Promise<Leadership | null>;
  /** Subscribes to an event; call what it returns to end that. A listener that throws disturbs nobody. */
  on<E extends keyof CoordinatorEvents>(event: E, listener: (payload: CoordinatorEvents[E]) => void): () => void;
}

/** A message that has no owner any more, or failed, and is now this replica's to handle. Acquire its ticket. */
export interface AdoptedMessage {
  readonly ticket: Ticket;
  readonly id?: string;
  readonly body: string;
  /** 1 for the first try. */
  readonly attempt: number;
}

/** What a durable coordinator adds: messages that outlive the replica which took them in. */
export interface Inbox {
  /**
   * Takes a message in: checks its id, stores it and gives it its place, in one step. Null means that a message with
   * this id is already waiting, running, parked, or was done within `dedupeMs`. Ids are compared within one key.
   *
   * A message is handled at least once, to its end, while one replica with an `onAdopted` listener lives and the store
   * keeps its data. A caller whose `acquireTurn` timed out or was aborted by it gave the message up; its id counts
   * no more.
   */
  accept(key: string, message: { id?: string; body: string }): Promise<Ticket | null>;
  /** Hears of messages to take over. Register it before `start()`: only replicas that listen are given any. */
  onAdopted(listener: (message: AdoptedMessage) => void): () => void;
}

/** How a turn of a {@link Mailroom} is let go. */
export interface LetGo {
  /** An accepted message goes back to the head, its attempt counted. */
  readonly retry?: boolean;
  /** An accepted message goes back to the head for another replica, if there is one. Its attempt counts as not begun. */
  readonly pass?: boolean;
  /** Why it goes back: kept with the message, and shown when it is parked. Cut to 500 characters. */
  readonly error?: string;
  /**
   * Messages of this key, as `waiting` told their `seq`, that end as done in the same step, whichever replica took them
   * in. Nothing happens to them when the turn is not held any more by then. No more than 256; the rest stays.
   */
  readonly also?: readonly number[];
  /**
   * Called once the backend has confirmed that this release ended the ticket, maybe after `release` has resolved. `isAll`:
   * whether those in `also` ended with it. `isUnsure`: no answer will ever tell, since this replica was counted as dead or
   * stopped before one came; the ticket may have ended, or another replica has it. Never called when the turn was lost before.
   */
  readonly onLanded?: (isAll: boolean, isUnsure?: boolean) => void;
}

/** A turn of a {@link Mailroom}. */
export interface MailTurn extends ChatTurn {
  readonly seq: number;
  release(options?: LetGo): Promise<void>;
}

/** A message that waits behind a turn. */
export interface WaitingMessage {
  readonly seq: number;
  readonly id?: string;
  readonly body: string;
  /** 1 when it was not tried yet. */
  readonly attempt: number;
}

/** A message that failed too often. */
export interface ParkedMessage {
  readonly key: string;
  readonly seq: number;
  readonly id?: string;
  readonly body: string;
  readonly attempts: number;
  /** The last reason that was given for returning it. */
  readonly error?: string;
}

/** A rate that all replicas keep together: one slot each `costMs`. */
export interface Pace {
  readonly costMs: number;
  /** How far slots may be taken ahead of their time: `costMs` for each slot of a burst but the first. Default 0. */
  readonly burstMs?: number;
  /** Above 0: take no slot, and let nobody have one for so long. Never more than an hour. Default 0. */
  readonly pauseMs?: number;
}

/**
 * What an Inbox needs so that a whole bot can be built on it: the holder of a key sees and finishes what waits behind it,
 * hears from others, and messages that failed are looked after. Every coordinator of ours has it.
 *
 * Calls reject as `reserve` does: with `unavailable` while the backend does not answer, and with a lifecycle error before
 * `start()` and after `stop()`.
 */
export interface Mailroom extends Coordinator, Inbox {
  acquireTurn(ticket: Ticket, options?: AcquireTurnOptions): Promise<MailTurn>;
  /** Whether a ticket that was not acquired yet has its turn. True is certain only when the turn is acquired. */
  isGranted(ticket: Ticket): boolean;
  /**
   * Ends a ticket that was not acquired: its message is done. Resolves as `release` does. `onLanded` is called once the
   * backend has confirmed it, and never when the message was another replica's by then.
   *
   * @throws TicketError for a ticket that is not this replica's, or is used up
   */
  finish(ticket: Ticket, onLanded?: () => void): Promise<void>;
  /**
   * Gives every message that this replica has and does not hold back to its place, for another replica, no attempt
   * counted. Who waits in `acquireTurn` for one is rejected with `LeaseLostError` (`stopped`). End `onAdopted` before: what
   * nobody else takes comes back.
   */
  passWaiting(): void;
  /** The first `limit` messages (256, and never more) behind a turn, in order. Changes nothing; empty once it is not held. */
  waiting(turn: MailTurn, limit?: number): Promise<readonly WaitingMessage[]>;
  /**
   * Leaves a note for the turn that holds `key` now, on whichever replica. False when nobody holds it, or when the holder
   * has 256 notes waiting. True does not say that somebody listens. A note has up to 65,536 characters.
   *
   * After `unavailable` it may have been left: made again, it may come twice.
   */
  tell(key: string, note: string): Promise<boolean>;
  /** Hears the notes for a turn, each once and in order. The first 256 that came before are kept for the first listener. */
  onTold(turn: MailTurn, listener: (note: string) => void): () => void;
  /** All messages that failed too often. A look, for operators. */
  parked(): Promise<readonly ParkedMessage[]>;
  /**
   * Puts a parked message at the end of its key, to be tried as if it were new. False when it is not parked (any more).
   * Some replica with an `onAdopted` listener gets it.
   */
  replay(key: string, seq: number): Promise<boolean>;
  /** Forgets a parked message; its id is free again. False when it is not parked (any more). */
  drop(key: string, seq: number): Promise<boolean>;
  /**
   * Takes the next slot of the pace `name`: how many milliseconds to wait before using it. All replicas must name the
   * same numbers. Made again after `unavailable` it may have cost a slot more.
   */
  pace(name: string, pace: Pace): Promise<number>;
}
