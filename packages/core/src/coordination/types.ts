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
  /** A message failed too often. It is kept and listed, and blocks nobody. */
  parked: { key: string; id: string | undefined; attempts: number };
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
