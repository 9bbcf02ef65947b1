/**
 * Store: the few atomic steps a backend implements. The engine (StoreCoordinator) makes a Coordinator & Inbox of any.
 *
 * A store knows no timers and no policy. Each step is one atomic transition of the mesh's shared record, judged by the
 * store's own clock. MemoryStore is the reference: given the same steps at the same times, every store answers the same.
 */

/** The format of what is stored. Replicas of another format are refused by name. */
export const FORMAT = 1;

/** What all replicas of a mesh must agree on. Pinned by the first join. */
export interface MeshConfig {
  readonly format: number;
  readonly leaseMs: number;
  readonly shards: number;
}

export interface JoinRequest {
  readonly replicaId: string;
  /** Random, made anew at every start(): tells two starts with one replicaId apart, and makes a join repeatable. */
  readonly instance: string;
  /** The first epoch this start was given, when it joins again; 0 at its first join. */
  readonly firstEpoch: number;
  readonly config: MeshConfig;
  /** Whether this replica can take over messages. */
  readonly adopts: boolean;
  /** The greatest stamp (epoch, seq or fence) this replica has seen: the store never goes below it again. */
  readonly seen: number;
}

export type JoinAnswer =
  | {
      readonly kind: 'joined';
      readonly epoch: number;
      readonly era: number;
      readonly quarantined: boolean;
      /** What was parked because this join ended other epochs. Told once: a repeated join brings none. */
      readonly parked: readonly ParkedNotice[];
    }
  | { readonly kind: 'refused'; readonly found: MeshConfig }
  /** A newer start has this replicaId. */
  | { readonly kind: 'replaced' };

/**
 * How a ticket ends.
 *
 * - `done`: its work is finished; an accepted message is marked done
 * - `return`: an accepted message goes back to its place for whoever can handle it, its attempt counted if it had begun
 * - `lost`: as `return`, by a replica that was blocked for longer than its trust: for the message that counts as its death
 * - `pass`: as `return`, but for another replica if there is one, and no attempt is counted: it was not begun
 * - `withdraw`: given up; an accepted message is forgotten and its id is free again
 *
 * For a ticket without a message all of them only free its place.
 */
export type ReleaseHow = 'done' | 'return' | 'lost' | 'pass' | 'withdraw';

export type Op =
  | { readonly op: 'reserve'; readonly key: string }
  /** Takes the key only if it can be granted at once. */
  | { readonly op: 'try'; readonly key: string }
  | {
      readonly op: 'accept';
      readonly key: string;
      readonly id: string | null;
      readonly body: string;
      readonly maxAttempts: number;
      readonly dedupeMs: number;
    }
  | {
      readonly op: 'release';
      readonly key: string;
      readonly seq: number;
      readonly how: ReleaseHow;
      /** Why a message is returned: kept with it, in place of an earlier reason. Null or absent: nothing to add. */
      readonly error?: string | null;
      /**
       * Messages waiting behind this ticket, whoever owns them, that end as done in the same step and before it. Heeded
       * only when the caller holds the key by this ticket; numbers of anything else are passed over.
       */
      readonly also?: readonly number[];
    }
  /** Leaves a note for the replica that holds `key`. Null when nobody holds it, or when too many notes wait there. */
  | { readonly op: 'tell'; readonly key: string; readonly note: string }
  /** Puts a parked message at the tail of its key, as new. Null when it is not parked. */
  | {
      readonly op: 'replay';
      readonly key: string;
      readonly seq: number;
      readonly maxAttempts: number;
      readonly dedupeMs: number;
    }
  /** Forgets a parked message and frees its id. Null when it is not parked. */
  | { readonly op: 'drop'; readonly key: string; readonly seq: number };

/** A place taken. `fence` is 0 while it waits. */
export interface Taken {
  readonly seq: number;
  readonly fence: number;
}

/** A ticket (key, seq) that is at the head and holds its key under `fence`. */
export interface Grant {
  readonly key: string;
  readonly seq: number;
  readonly fence: number;
}

/** A granted ticket with its message, for a replica that did not have it. */
export interface Adoption extends Grant {
  readonly id: string | null;
  readonly body: string;
  readonly attempt: number;
}

export interface ParkedNotice {
  readonly key: string;
  readonly id: string | null;
  readonly attempts: number;
  /** The last reason that was given for returning it. */
  readonly error: string | null;
}

/** A note for whoever holds `key` by the ticket `seq`. */
export interface Note {
  /** A stamp: notes of one replica rise. */
  readonly at: number;
  readonly key: string;
  readonly seq: number;
  readonly note: string;
}

/** What a step changed for its caller beyond the direct results. */
export interface News {
  readonly grants: readonly Grant[];
  readonly adopted: readonly Adoption[];
  readonly parked: readonly ParkedNotice[];
}

/** The caller's epoch is not alive (`dead`), or a newer start took its replicaId (`replaced`): nothing was done. */
export type Refusal = { readonly kind: 'dead' } | { readonly kind: 'replaced' };

export interface ApplyRequest {
  readonly epoch: number;
  readonly instance: string;
  /** Grows by one with every new batch of this epoch. The same number again gets the stored answer again. */
  readonly batch: number;
  readonly ops: readonly Op[];
}

export type ApplyAnswer =
  | {
      readonly kind: 'applied';
      readonly era: number;
      /**
       * One for each op, null where nothing came of it:
       *
       * - `reserve`, `try`, `accept`: the place taken; null when busy, or a duplicate
       * - `release`: the ticket, when it was the caller's; `fence` is 0 unless it held its key, and only then was `also`
       *   heeded. Null otherwise: nothing was done
       * - `tell`: the ticket that holds the key
       * - `replay`: the message's new place, `fence` 0; `drop`: its old one
       */
      readonly results: readonly (Taken | null)[];
      readonly news: News;
    }
  /** A batch older than the last one applied: nothing was done. */
  | { readonly kind: 'stale' }
  | Refusal;

export interface BeatRequest {
  readonly epoch: number;
  readonly instance: string;
  /** Grows with every heartbeat of this epoch. One that is not newer than the last is out of date: it does nothing. */
  readonly beat: number;
  /** The era the caller last heard of. */
  readonly era: number;
  /** How long the caller has watched that era, by its own monotonic clock: what may end a quarantine. */
  readonly watchedMs: number;
  readonly seen: number;
  readonly adopts: boolean;
  /** The last batch whose answer the caller has: places of later batches are not judged by this view. */
  readonly answered: number;
  /** The greatest `at` of a note that the caller has: notes up to it are forgotten. 0 for none. */
  readonly heard: number;
  /** Every ticket the caller has: its fence where it holds or was granted the key, 0 where it waits. */
  readonly view: readonly Grant[];
}

export type BeatAnswer =
  | {
      readonly kind: 'alive';
      readonly era: number;
      readonly quarantined: boolean;
      /** Where the store differs from the view: granted meanwhile, to be taken over, parked. */
      readonly news: News;
      /** Listed tickets that the store does not know, or not under that fence. */
      readonly lost: readonly Grant[];
      /** What was told to the caller's turns and is later than `heard`, oldest first. */
      readonly notes: readonly Note[];
      /** There is more to take over, or more notes: beat again. */
      readonly more: boolean;
    }
  /** A heartbeat older than the last one, or the same again: nothing was done. */
  | { readonly kind: 'stale' }
  | Refusal;

export interface LeaveRequest {
  readonly epoch: number;
  readonly instance: string;
}

export interface WaitingRequest {
  readonly key: string;
  /** The head of the key: nothing waits behind any other ticket. */
  readonly seq: number;
  /** No more messages than this, and never more than 256. */
  readonly limit: number;
}

/** A message that waits behind the head of its key. */
export interface Waiting {
  readonly seq: number;
  readonly id: string | null;
  readonly body: string;
  readonly attempt: number;
}

export interface PaceRequest {
  readonly name: string;
  /** How far apart slots are. */
  readonly costMs: number;
  /** How far slots may be taken ahead of their time: `costMs` for each slot of a burst but the first. */
  readonly burstMs: number;
  /** Above 0: takes no slot, and gives none to anybody for so long. */
  readonly pauseMs: number;
}

export interface PaceAnswer {
  /** How long to wait before the slot may be used, or until the pause is over. */
  readonly waitMs: number;
}

/** Hints to one replica. They may be lost, late or doubled; heartbeats bring the same. */
export type Push =
  | {
      readonly kind: 'grant';
      readonly epoch: number;
      readonly era: number;
      readonly key: string;
      readonly seq: number;
      readonly fence: number;
    }
  /** Something waits for you: beat now. */
  | { readonly kind: 'look'; readonly epoch: number }
  | { readonly kind: 'replaced'; readonly epoch: number }
  /** Sent by every beat to its own caller: shows that pushes arrive. */
  | { readonly kind: 'ping'; readonly epoch: number };

export interface QueueView {
  readonly key: string;
  readonly head: { readonly seq: number; readonly epoch: number; readonly fence: number };
  readonly waiting: number;
}

export interface ParkedView extends ParkedNotice {
  readonly seq: number;
  readonly body: string;
}

/** A look at the record, for operators and tests. Not part of the protocol: nothing may be decided by it. */
export interface StoreView {
  readonly config: MeshConfig | null;
  readonly era: number;
  readonly quarantined: boolean;
  readonly replicas: readonly {
    readonly replicaId: string;
    readonly epoch: number;
    readonly beatAgeMs: number;
    readonly replaced: boolean;
    readonly tickets: number;
  }[];
  readonly queues: readonly QueueView[];
  readonly parked: readonly ParkedView[];
  /** How many ids of finished messages are remembered. */
  readonly remembered: number;
  /** How many paces have slots that are still to come. */
  readonly paces: number;
}

/**
 * A backend's atomic steps, for one shard. Every promise rejects when the store cannot be reached or its answer is not
 * known; the engine then makes the same step again. No step may be queued while disconnected: fail instead.
 */
export interface Store {
  /** Makes `replicaId` alive under a new epoch. Repeating it with the same instance gives the same epoch. */
  join(request: JoinRequest): Promise<JoinAnswer>;
  /** Runs a numbered batch of operations in order, all in one step. */
  apply(request: ApplyRequest): Promise<ApplyAnswer>;
  /** Renews the lease, compares the caller's whole view with the record, buries the dead, hands out what lies about. */
  beat(request: BeatRequest): Promise<BeatAnswer>;
  /** Ends the epoch and hands over all it had. Repeatable; unknown epochs are ignored. */
  leave(request: LeaveRequest): Promise<void>;
  /** The messages behind the head of a key, in order. Empty when `seq` is not the head. Changes nothing. */
  waiting(request: WaitingRequest): Promise<readonly Waiting[]>;
  /** Takes the next slot of a pace that all replicas share. Made twice it takes two. */
  pace(request: PaceRequest): Promise<PaceAnswer>;
  /** Hears pushes for `instance` until the returned function is called. */
  subscribe(instance: string, listener: (push: Push) => void): Promise<() => Promise<void>>;
  inspect(): Promise<StoreView>;
  /** Lets go of connections that the store itself opened. A later join may open them again. */
  close(): Promise<void>;
}
