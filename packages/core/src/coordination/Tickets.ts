import { CoordinationUnavailableError, LeaseLostError, type LeaseLostReason } from '../errors.js';
import type { Timer } from '../time/clock.js';
import type { Batches, Pending } from './batches.js';
import { callQuietly } from './events.js';
import { type Ending, type Hold, type Keeper, Lead, MOST_KEPT, Turn } from './held.js';
import type { Lease } from './lease.js';
import type { Settings } from './options.js';
import type { Grant, Note, Op } from './store.js';
import type { AcquireTurnOptions, CoordinatorEvents } from './types.js';
import { type Place, Wait } from './waiting.js';

export interface TicketsOptions {
  readonly settings: Settings;
  readonly lease: Lease;
  readonly batches: Batches;
  readonly emit: <E extends keyof CoordinatorEvents>(event: E, payload: CoordinatorEvents[E]) => void;
  readonly beatNow: () => void;
}

/** Every place this replica has in one epoch: who waits for which, who holds which, and what becomes of them. */
export class Tickets implements Keeper {
  readonly #options: TicketsOptions;
  readonly #places = new Map<number, Place>();
  /** Grants that came before the answer which names their ticket. */
  readonly #early = new Map<number, Grant>();
  /** Notes that came before that answer. */
  #earlyNotes: Note[] = [];
  #lookTimer: Timer | undefined;
  #isHushed = false;

  constructor(options: TicketsOptions) {
    this.#options = options;
  }

  // ── Coming in ──────────────────────────────────────────────────────────────────────────────────────────────────────

  add(key: string, seq: number, fence: number, isMessage: boolean): Place {
    // A store that was set back gave this number before: whoever waits with it lost its place.
    const former = this.#places.get(seq);
    if (former !== undefined) this.onLost(former);
    const place: Place = {
      key,
      name: key.slice(2),
      kind: key.startsWith('l') ? 'leadership' : 'turn',
      seq,
      isMessage,
      isCampaign: false,
      fence: this.#early.get(seq)?.fence ?? fence,
      stage: 'open',
      sinceMs: this.#nowMs(),
      wasTold: false,
      wait: undefined,
      hold: undefined,
      notes: this.#earlyNotes.length === 0 ? [] : this.#earlyNotes.filter((note) => note.seq === seq),
      error: undefined,
    };
    this.#places.set(seq, place);
    this.#lookSoon();
    return place;
  }

  get(seq: number): Place | undefined {
    return this.#places.get(seq);
  }

  /** The replica's whole view, as a heartbeat carries it. */
  view(): Grant[] {
    const view: Grant[] = [];
    for (const { key, seq, fence, stage } of this.#places.values()) {
      if (stage !== 'lost') view.push({ key, seq, fence });
    }
    return view;
  }

  hasWaiting(): boolean {
    for (const place of this.#places.values()) if (place.stage === 'waiting') return true;
    return false;
  }

  // ── Waiting and holding ────────────────────────────────────────────────────────────────────────────────────────────

  /** Waits until `place` is granted, then holds it. */
  acquire(place: Place, options: AcquireTurnOptions, isCampaign: boolean): Promise<Hold> {
    const { signal, timeoutMs } = options;
    place.isCampaign = isCampaign;
    if (place.stage === 'lost') {
      this.#places.delete(place.seq);
      return Promise.reject(place.error ?? new LeaseLostError('superseded'));
    }
    if (signal?.aborted) {
      this.withdraw(place);
      return Promise.reject(signal.reason);
    }
    if (place.fence !== 0 && this.#isFresh()) return Promise.resolve(this.#hold(place));
    return new Promise((resolve, reject) => {
      const wait = new Wait(this.#options.settings.clock, resolve, reject);
      place.stage = 'waiting';
      place.wait = wait;
      wait.limit(timeoutMs, () => {
        this.withdraw(place);
        wait.reject(timedOut(place, timeoutMs ?? 0));
      });
      wait.abortBy(signal, () => {
        this.withdraw(place);
        wait.reject(signal?.reason);
      });
      if (place.fence !== 0) this.#options.beatNow();
    });
  }

  /** Its caller gave it up. */
  withdraw(place: Place): void {
    if (place.stage === 'open' || place.stage === 'waiting') this.#give(place, { how: 'withdraw' });
  }

  /** Nobody will acquire it: what it stands for is done. */
  finish(place: Place, onLanded: (() => void) | undefined): Promise<void> {
    const landed = onLanded && ((_isAll: boolean, isUnsure?: boolean): void => void (isUnsure || onLanded()));
    return new Promise((resolve) => this.#give(place, { how: 'done', onLanded: landed }, resolve));
  }

  /** Messages that nobody holds here go to others. */
  passWaiting(): void {
    for (const place of [...this.#places.values()]) {
      if (place.isMessage && (place.stage === 'open' || place.stage === 'waiting')) this.pass(place);
    }
  }

  /** A message that nobody holds here goes to others. */
  pass(place: Place): void {
    const { wait } = place;
    place.error = new LeaseLostError('stopped');
    this.#give(place, { how: 'pass' });
    wait?.reject(place.error);
  }

  /** The backend is away: its caller is told so, and a message goes back to the mesh. */
  refuse(place: Place, error: Error): void {
    place.wait?.reject(error);
    this.#give(place, backOf(place));
  }

  refuseWaiting(error: Error): void {
    for (const place of [...this.#places.values()]) {
      if (place.stage === 'waiting' && !place.isCampaign) this.refuse(place, error);
    }
  }

  isTrusted(): boolean {
    return this.#options.lease.check();
  }

  release(hold: Hold, ending: Ending): Promise<void> {
    const place = this.#places.get(hold.seq);
    if (place?.hold !== hold) return Promise.resolve();
    place.hold = undefined;
    return new Promise((resolve) => this.#give(place, ending, resolve));
  }

  /** Trust is back: grants that came meanwhile are worth having. */
  deliverAll(): void {
    for (const place of this.#places.values()) this.#deliver(place);
  }

  /** Whether enough trust is left that a turn granted now is worth having. */
  #isFresh(): boolean {
    const { lease, settings } = this.#options;
    return lease.checkedMs() >= settings.timing.trustMs / 4;
  }

  #hold(place: Place): Hold {
    const Kind = place.kind === 'turn' ? Turn : Lead;
    const hold = new Kind(this, place.seq, place.name, place.fence);
    place.stage = 'held';
    place.hold = hold;
    place.wait = undefined;
    place.sinceMs = this.#nowMs();
    for (const note of place.notes.splice(0)) if (note.at > place.fence) hold.told(note.note);
    return hold;
  }

  #deliver(place: Place): void {
    const { wait } = place;
    if (place.stage !== 'waiting' || wait === undefined || place.fence === 0) return;
    if (this.#isFresh()) wait.resolve(this.#hold(place));
    else this.#options.beatNow();
  }

  /** Gives a place back to the store. It stays in the view until the store has answered. */
  #give(place: Place, ending: Ending, onDone?: () => void): void {
    place.stage = 'ending';
    place.wait = undefined;
    const { batches, lease } = this.#options;
    const pending: Pending = {
      op: releaseOf(place, ending),
      sent: false,
      abandoned: false,
      isUnsure: false,
      settle: (taken) => {
        if (this.#places.get(place.seq) === place) this.#places.delete(place.seq);
        if (taken !== null) this.#onLanded(place, ending, taken.fence !== 0);
        else if (pending.isUnsure && !this.#isHushed) tellLanded(ending, true, true);
        onDone?.();
      },
      reject: () => onDone?.(),
    };
    batches.push(pending);
    // Lapsed unnoticed, it ends with the lapse, which the watchdog is about to notice.
    if (onDone !== undefined && !lease.isOpen) onDone();
  }

  // ── What the store says ────────────────────────────────────────────────────────────────────────────────────────────

  /** A grant that may be believed. `isEarly`: the answer that names the ticket may still be on its way. */
  onGrant(grant: Grant, isEarly: boolean): void {
    const place = this.#places.get(grant.seq);
    if (place === undefined) {
      // Nobody here knows it and nothing is on its way: the next heartbeat gives it back.
      if (isEarly) this.#early.set(grant.seq, grant);
      return;
    }
    if (place.stage !== 'open' && place.stage !== 'waiting') return;
    if (grant.fence <= place.fence) return;
    place.fence = grant.fence;
    place.sinceMs = this.#nowMs();
    this.#lookSoon();
    this.#deliver(place);
  }

  forgetEarly(): void {
    this.#early.clear();
    this.#earlyNotes = [];
  }

  /** A note for a turn. `isEarly`: the answer that names the ticket may still be on its way. */
  onNote(note: Note, isEarly: boolean): void {
    const place = this.#places.get(note.seq);
    if (place === undefined) {
      if (isEarly) this.#earlyNotes.push(note);
      return;
    }
    // One for an earlier turn of the same ticket came late.
    if (place.hold !== undefined && note.at > place.fence) place.hold.told(note.note);
    else if (place.hold === undefined && place.notes.length < MOST_KEPT) place.notes.push(note);
  }

  /** The store has confirmed a release. `isHeld`: the ticket held its key until then. */
  #onLanded(place: Place, ending: Ending, isHeld: boolean): void {
    const { also = [] } = ending;
    if (isHeld) this.#onFinished(place.key, also);
    tellLanded(ending, isHeld || also.length === 0, false);
  }

  /** Its process is dead: nobody is told anything more. */
  hush(): void {
    this.#isHushed = true;
  }

  /** They ended together with a turn of this replica, and need no heartbeat to learn it. */
  #onFinished(key: string, seqs: readonly number[]): void {
    for (const seq of seqs) {
      const place = this.#places.get(seq);
      if (place?.isMessage && place.key === key) this.onLost(place);
    }
  }

  /** The store does not know this ticket, or not under this fence. */
  onLost(ticket: Grant): void {
    const place = this.#places.get(ticket.seq);
    if (place === undefined || place.fence !== ticket.fence) return;
    if (place.stage === 'ending' || place.stage === 'lost') return;
    const error = new LeaseLostError('superseded');
    const { wait, stage } = place;
    if (stage === 'held') this.#lose(place, 'superseded');
    place.stage = 'lost';
    place.error = error;
    place.wait = undefined;
    place.sinceMs = this.#nowMs();
    // An open one stays, so that whoever acquires it later learns why.
    if (stage !== 'open') this.#places.delete(place.seq);
    wait?.reject(error);
  }

  /** Of what is believed granted, only what `view` lists stays so. */
  keepListed(view: readonly Grant[]): void {
    const listed = new Map(view.map(({ seq, fence }) => [seq, fence]));
    for (const place of [...this.#places.values()]) {
      if (place.fence === 0 || listed.get(place.seq) === place.fence) continue;
      if (place.stage === 'held') this.#expire(place, 'superseded');
      else if (place.stage !== 'ending') place.fence = 0;
    }
  }

  // ── Endings ────────────────────────────────────────────────────────────────────────────────────────────────────────

  /**
   * Trust ran out: who holds a key learns it now. Who waits may go on waiting if the store still knows this replica.
   * `isBlocked`: because this process stood still, so that one of the messages in its hand may be why.
   */
  lapse(isBlocked: boolean): void {
    this.forgetEarly();
    for (const place of [...this.#places.values()]) {
      if (place.stage === 'held') this.#expire(place, 'expired', isBlocked ? 'lost' : 'return');
      else if (place.stage !== 'ending') place.fence = 0;
    }
  }

  #expire(place: Place, reason: LeaseLostReason, how?: 'lost' | 'return'): void {
    this.#lose(place, reason);
    this.#give(place, backOf(place, how));
  }

  /** The epoch is over: every hold, wait and place ends. */
  endAll(reason: LeaseLostReason, waitReason: LeaseLostReason = reason): void {
    const places = [...this.#places.values()];
    this.#places.clear();
    this.forgetEarly();
    this.#stopLooking();
    for (const place of places) {
      if (place.stage === 'held') this.#lose(place, reason);
      place.stage = 'lost';
      place.error = new LeaseLostError(waitReason);
      place.wait?.reject(place.error);
      place.wait = undefined;
    }
  }

  #lose(place: Place, reason: LeaseLostReason): void {
    const { hold } = place;
    place.hold = undefined;
    if (hold === undefined) return;
    hold.lose(new LeaseLostError(reason));
    this.#options.emit('lost', { kind: place.kind, key: place.name, fence: hold.fence, reason });
  }

  /** Gives back what was forgotten, tells of what is held for long, drops what was lost and never asked for. */
  look(): void {
    const { emit, settings } = this.#options;
    const nowMs = this.#nowMs();
    for (const place of [...this.#places.values()]) {
      const ageMs = nowMs - place.sinceMs;
      if (place.stage === 'held' && ageMs >= settings.heldWarnMs && !place.wasTold) {
        place.wasTold = true;
        emit('held', { key: place.name, fence: place.fence, heldMs: ageMs });
      } else if (place.stage === 'open' && place.fence !== 0 && ageMs >= settings.ticketTtlMs) {
        this.#give(place, backOf(place));
        emit('ticketLeaked', { key: place.name, seq: place.seq });
      } else if (place.stage === 'lost' && ageMs >= settings.ticketTtlMs) this.#places.delete(place.seq);
    }
  }

  /** Heartbeats look for forgotten places; a shorter limit needs a look of its own. */
  #lookSoon(delayMs = this.#options.settings.ticketTtlMs): void {
    const { clock, ticketTtlMs, timing } = this.#options.settings;
    if (ticketTtlMs >= timing.beatMs || this.#lookTimer !== undefined) return;
    this.#lookTimer = clock.setTimer(delayMs, () => {
      this.#lookTimer = undefined;
      this.look();
      const nextMs = this.#nextForgottenMs();
      if (nextMs !== undefined) this.#lookSoon(nextMs);
    });
  }

  /** After how long to look again for granted places that were forgotten; undefined when none is open. */
  #nextForgottenMs(): number | undefined {
    const { ticketTtlMs } = this.#options.settings;
    let oldestMs: number | undefined;
    for (const { stage, fence, sinceMs } of this.#places.values()) {
      if (stage === 'open' && fence !== 0 && sinceMs < (oldestMs ?? Number.POSITIVE_INFINITY)) oldestMs = sinceMs;
    }
    if (oldestMs === undefined) return undefined;
    // Many that come one after the other share a look.
    return Math.max(oldestMs + ticketTtlMs - this.#nowMs(), ticketTtlMs / 10);
  }

  #stopLooking(): void {
    if (this.#lookTimer !== undefined) this.#options.settings.clock.clearTimer(this.#lookTimer);
    this.#lookTimer = undefined;
  }

  #nowMs(): number {
    return this.#options.settings.clock.monotonicMs();
  }
}

/** What the replica cannot use any more. */
function backOf({ isMessage }: Place, how: 'lost' | 'return' = 'return'): Ending {
  return { how: isMessage ? how : 'withdraw' };
}

/** Not in the midst of an answer. */
function tellLanded({ onLanded }: Ending, isAll: boolean, isUnsure: boolean): void {
  if (onLanded === undefined) return;
  const told = isUnsure ? (all: boolean): void => onLanded(all, true) : onLanded;
  queueMicrotask(() => callQuietly(told, isAll));
}

/** Without the parts that are not needed: most releases need none, and it is sent as it is. */
function releaseOf({ isMessage, key, seq }: Place, { how: wanted, error, also }: Ending): Op {
  const how = isMessage || wanted === 'withdraw' ? wanted : 'done';
  if (error == null && (also === undefined || also.length === 0)) return { op: 'release', key, seq, how };
  return { op: 'release', key, seq, how, error: error ?? null, also: also ?? [] };
}

function timedOut(place: Place, timeoutMs: number): CoordinationUnavailableError {
  const message = `acquireTurn(): ticket ${place.seq} was not granted within ${timeoutMs} ms. Its key is busy; the ticket is withdrawn.`;
  return new CoordinationUnavailableError('timeout', message);
}
