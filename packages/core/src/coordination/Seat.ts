import { ConfigError, LeaseLostError, type LeaseLostReason, LifecycleError } from '../errors.js';
import type { Instant } from '../time/clock.js';
import { Batches, type Pending } from './batches.js';
import { Heartbeat } from './Heartbeat.js';
import type { Hold } from './held.js';
import { Joining } from './Joining.js';
import { Lease } from './lease.js';
import { bytesAbove } from './op-size.js';
import type { Settings } from './options.js';
import { Questions } from './Questions.js';
import { Reachability } from './Reachability.js';
import { callOf, crashed, mismatch, notStarted, notThrough, tooLong, unavailable } from './refusals.js';
import type {
  Adoption,
  ApplyAnswer,
  BeatAnswer,
  Grant,
  JoinAnswer,
  News,
  Note,
  Op,
  ParkedNotice,
  Push,
  Store,
  Taken,
} from './store.js';
import { Tickets } from './Tickets.js';
import type { AcquireTurnOptions, CoordinatorEvents, Ticket } from './types.js';
import { Wakes } from './Wakes.js';
import type { Place } from './waiting.js';
import { answerWithin, asError, NoAnswer } from './within.js';

/** What a seat tells the coordinator it belongs to. */
export interface SeatHost {
  readonly settings: Settings;
  readonly shards: number;
  /** Whether somebody here takes over messages. */
  adopts(): boolean;
  /** Whether anybody here ever did: where nobody does, a message without an owner would only stand in the way. */
  hasAdopted(): boolean;
  emit<E extends keyof CoordinatorEvents>(event: E, payload: CoordinatorEvents[E]): void;
  adopted(place: Place, message: Adoption): void;
  wentDown(error: Error): void;
  cameBack(): void;
  /** A newer start has this replicaId: the whole coordinator is done. */
  wasReplaced(): void;
}

/**
 * - `off`: never started, or stopped
 * - `joining`: no epoch now; join is tried until it works
 * - `joined`: alive as far as we know; whether that can be trusted is the lease's to say
 * - `leaving`: stop() is under way
 * - `replaced`: over for good
 */
type Phase = 'off' | 'joining' | 'joined' | 'leaving' | 'replaced';

/** What was when the store counted an epoch as dead. */
interface Former {
  readonly epoch: number;
  readonly era: number;
  readonly messages: readonly Ticket[];
}

/** So many former epochs are remembered, to tell whoever comes with their tickets why they ended. */
const FORMER_KEPT = 64;

/** One replica's seat in one shard: its epoch, its trust, its tickets. The protocol's client side is here, once. */
export class Seat {
  readonly #host: SeatHost;
  readonly #store: Store;
  readonly #settings: Settings;
  readonly #lease: Lease;
  readonly #batches: Batches;
  readonly #heartbeat: Heartbeat;
  readonly #tickets: Tickets;
  readonly #wakes: Wakes;
  readonly #backend: Reachability;
  readonly #joining: Joining;
  readonly #questions: Questions;
  readonly #former = new Map<number, LeaseLostReason>();

  #phase: Phase = 'off';
  #isDead = false;
  /** How many answers, timers and pushes are being taken in at this moment. Not 0 only while listeners may be called. */
  #busy = 0;
  #instance = '';
  #epoch = 0;
  #firstEpoch = 0;
  /** The greatest stamp seen: kept across a store that forgot it. */
  #seen = 0;
  #era = 0;
  #eraSinceMs = 0;
  #isQuarantined = false;
  /** Whether the last heartbeat but one was answered in another era: what the next one lacks may have been lost with that. */
  #wasEraNew = false;

  /** Why there was no answer, since the last one. */
  #lastError: Error = new NoAnswer();
  #beats = 0;
  /** The greatest stamp of a note that came. */
  #heard = 0;
  /** What the heartbeat under way lists. */
  #view: readonly Grant[] = [];
  constructor(host: SeatHost, store: Store) {
    this.#host = host;
    this.#store = store;
    this.#settings = host.settings;
    const { clock, timing } = this.#settings;
    this.#lease = new Lease(clock, timing.trustMs, () => this.#takeIn(() => this.#lapse()));
    this.#batches = new Batches({
      clock,
      attemptMs: timing.attemptMs,
      patienceMs: timing.leaseMs,
      canSend: () => (this.#phase === 'joined' && !this.isDown) || this.#phase === 'leaving',
      isTrusted: () => this.#lease.isOpen,
      send: (batch, ops) => this.#sendBatch(batch, ops),
      onAnswer: (answer, pending) => this.#takeIn(() => this.#onApplied(answer, pending)),
      onFailure: (error) => this.#onFailure(error),
      refusal: notThrough,
    });
    this.#heartbeat = new Heartbeat({
      clock,
      timing,
      send: () => this.#takeIn(() => this.#sendBeat()),
      onAnswer: (answer, sentAt) => this.#takeIn(() => this.#onBeat(answer, sentAt)),
      onFailure: (error) => this.#onFailure(error),
      onLate: (lateMs) => this.#takeIn(() => host.emit('late', { lateMs })),
    });
    this.#tickets = new Tickets({
      settings: this.#settings,
      lease: this.#lease,
      batches: this.#batches,
      emit: (event, payload) => host.emit(event, payload),
      beatNow: () => this.beatNow(),
    });
    this.#wakes = new Wakes({
      clock,
      store,
      limitMs: timing.beatMs,
      onPush: (push) => this.#takeIn(() => this.#onPush(push)),
      onDegraded: () => host.emit('wakeDegraded', {}),
    });
    this.#joining = new Joining(this.#settings, store, this.#wakes, host.shards);
    this.#questions = new Questions(this.#settings);
    this.#backend = new Reachability(clock, timing.attemptMs, () => this.#takeIn(() => this.#goDown()));
  }

  get epoch(): number {
    return this.#epoch;
  }

  /** Whether it ended as by a crash: it never starts again. */
  get isDead(): boolean {
    return this.#isDead;
  }

  get isDown(): boolean {
    return this.#backend.isDown;
  }

  // ── Joining ────────────────────────────────────────────────────────────────────────────────────────────────────────

  /** Joins, trying for one lease. */
  async start(): Promise<void> {
    const { clock, timing } = this.#settings;
    this.#phase = 'joining';
    this.#instance = clock.uniqueId();
    this.#firstEpoch = 0;
    const instance = this.#instance;
    const startedMs = clock.monotonicMs();
    while (this.#phase === 'joining' && this.#instance === instance) {
      const answer = await this.#tryJoin();
      // Nothing that time would mend.
      if (answer instanceof ConfigError) throw this.#abandonStart('off', answer);
      if (answer instanceof Error) this.#onFailure(answer);
      else if (answer.kind === 'joined') return this.#checkStarted(instance);
      else if (answer.kind === 'replaced') throw this.#abandonStart('replaced', new LeaseLostError('replaced'));
      else throw this.#abandonStart('off', mismatch(answer.found, this.#joining.config));
      if (clock.monotonicMs() - startedMs >= timing.leaseMs) {
        throw this.#abandonStart('off', notStarted(this.#lastError));
      }
      await this.#joining.pause();
    }
    throw this.#endedError();
  }

  #checkStarted(instance: string): void {
    if (this.#phase !== 'joined' || this.#instance !== instance) throw this.#endedError();
  }

  #abandonStart(phase: 'off' | 'replaced', error: Error): Error {
    this.#phase = phase;
    this.#drop(error);
    void this.#detach();
    return error;
  }

  /** One attempt to join; an error when it came to nothing. */
  async #tryJoin(): Promise<JoinAnswer | Error> {
    const instance = this.#instance;
    const joined = await this.#joining.attempt(instance, () => ({
      firstEpoch: this.#firstEpoch,
      adopts: this.#host.adopts(),
      seen: this.#seen,
    }));
    if (joined instanceof Error) return joined;
    const { answer, sentAt } = joined;
    if (answer.kind !== 'joined') return answer;
    this.#takeIn(() => this.#tellParked(answer.parked));
    if (this.#phase === 'joining' && this.#instance === instance) this.#takeIn(() => this.#sitDown(answer, sentAt));
    else void this.#store.leave({ epoch: answer.epoch, instance }).catch(() => {});
    return answer;
  }

  #sitDown(answer: JoinAnswer & { kind: 'joined' }, sentAt: Instant): void {
    this.#epoch = answer.epoch;
    if (this.#firstEpoch === 0) this.#firstEpoch = answer.epoch;
    this.#note(answer.epoch);
    this.#phase = 'joined';
    this.#beats = 0;
    this.#noteEra(answer.era, answer.quarantined);
    if (this.#phase !== 'joined') return;
    this.#trust(sentAt);
    // The first heartbeat takes the name from an older start: a join alone may be late, of a start that is over.
    this.beatNow();
    this.#batches.kick();
  }

  // ── Ending ─────────────────────────────────────────────────────────────────────────────────────────────────────────

  /** Ends what is held, hands everything over, and lets go of the store. Bounded by the lease; never rejects. */
  async stop(): Promise<void> {
    // Called by a listener in the midst of an answer: what is under way there would go on with a seat that is gone.
    while (this.#busy > 0) await Promise.resolve();
    if (this.#phase === 'off' || this.#phase === 'leaving') return;
    const wasJoined = this.#phase === 'joined';
    const { clock, timing } = this.#settings;
    const untilMs = clock.monotonicMs() + Math.max(timing.beatMs, this.#lease.remainingMs());
    if (this.#phase !== 'replaced') this.#phase = 'leaving';
    this.#stopClocks();
    this.#tickets.endAll('stopped');
    for (const pending of this.#batches.recall(isTaking)) pending.reject(new LeaseLostError('stopped'));
    this.#questions.end(new LeaseLostError('stopped'));
    if (wasJoined) await this.#handOver(untilMs);
    this.#remember('stopped');
    this.#drop(new LeaseLostError('stopped'));
    await this.#detach();
    if (this.#phase === 'leaving') this.#phase = 'off';
  }

  async #handOver(untilMs: number): Promise<void> {
    const { clock, timing } = this.#settings;
    // Releases of finished work go first: leaving would hand that work to somebody else.
    this.#batches.kick();
    await answerWithin(clock, untilMs - clock.monotonicMs(), () => this.#batches.idle());
    while (clock.monotonicMs() < untilMs) {
      const request = { epoch: this.#epoch, instance: this.#instance };
      const answer = await answerWithin(clock, timing.beatMs, () => this.#store.leave(request));
      if (!(answer instanceof Error)) return;
      await this.#joining.pause();
    }
  }

  /** Ends at once and without a word to anybody, as a crash would. */
  die(): void {
    this.#isDead = true;
    if (this.#phase === 'off') return;
    this.#phase = 'off';
    this.#stopClocks();
    this.#tickets.endAll('expired', 'superseded');
    this.#tickets.hush();
    this.#remember('superseded');
    this.#drop(new LeaseLostError('superseded'));
    void this.#detach();
  }

  /** A newer start has our name. Over for good: say so to the store, so that what we held is free at once. */
  endReplaced(): void {
    if (this.#phase === 'replaced' || this.#phase === 'off') return;
    const request = { epoch: this.#epoch, instance: this.#instance };
    this.#phase = 'replaced';
    this.#stopClocks();
    this.#tickets.endAll('replaced');
    this.#remember('replaced');
    this.#drop(new LeaseLostError('replaced'));
    void this.#store.leave(request).catch(() => {});
    this.#host.wasReplaced();
  }

  /** The store counts our epoch as dead: everything of it is lost. Join again as a new epoch. */
  #superseded(): void {
    const former = { epoch: this.#epoch, era: this.#era, messages: this.#tickets.messages() };
    this.#phase = 'joining';
    this.#stopClocks();
    this.#tickets.endAll('superseded');
    this.#remember('superseded');
    this.#backend.expectAnswer();
    for (const pending of this.#batches.reset()) this.#carryOver(pending);
    void this.#joinAgain(former);
  }

  /** What becomes of a call whose batch the dead epoch cannot finish. */
  #carryOver(pending: Pending): void {
    if (!isTaking(pending)) pending.settle(null);
    else if (pending.abandoned) return;
    // Perhaps it was done. A message that somebody has adopted, made again without an id, would be handled twice.
    else if (pending.sent && !isPlace(pending.op)) pending.reject(unavailable(callOf(pending.op), this.#lastError));
    else this.#batches.push(pending);
  }

  async #joinAgain(former: Former): Promise<void> {
    while (this.#phase === 'joining') {
      const answer = await this.#tryJoin().catch(asError);
      if (answer instanceof Error) this.#onFailure(answer);
      else if (answer.kind === 'joined') {
        // In the same era others have taken them over.
        if (answer.era !== former.era) this.#tellForgotten(former.messages);
        return this.#host.emit('superseded', { epoch: former.epoch, successor: answer.epoch });
      } else if (answer.kind === 'replaced') return this.endReplaced();
      else this.#lastError = mismatch(answer.found, this.#joining.config);
      await this.#joining.pause();
    }
  }

  #remember(reason: LeaseLostReason): void {
    if (this.#epoch !== 0) this.#former.set(this.#epoch, reason);
    this.#epoch = 0;
    for (const epoch of this.#former.keys()) {
      if (this.#former.size <= FORMER_KEPT) break;
      this.#former.delete(epoch);
    }
  }

  /** Nothing is on its way any more, and nobody waits for it. */
  #drop(error: Error): void {
    for (const pending of this.#batches.reset()) {
      if (isTaking(pending)) pending.reject(error);
      else pending.settle(null);
    }
    this.#questions.end(error);
    this.#backend.reset();
  }

  #stopClocks(): void {
    this.#lease.end();
    this.#heartbeat.stop();
    this.#backend.stop();
  }

  async #detach(): Promise<void> {
    await this.#wakes.close();
    await this.#store.close().catch(() => {});
  }

  // ── Heartbeat and trust ────────────────────────────────────────────────────────────────────────────────────────────

  beatNow(): void {
    if (this.#phase === 'joined') this.#heartbeat.now();
  }

  #sendBeat(): Promise<BeatAnswer> {
    this.#lease.check();
    this.#tickets.look();
    this.#beats += 1;
    this.#view = this.#tickets.view();
    return this.#store.beat({
      epoch: this.#epoch,
      instance: this.#instance,
      beat: this.#beats,
      era: this.#era,
      watchedMs: this.#settings.clock.monotonicMs() - this.#eraSinceMs,
      seen: this.#seen,
      adopts: this.#host.adopts(),
      answered: this.#batches.answered,
      heard: this.#heard,
      view: this.#view,
    });
  }

  #onBeat(answer: BeatAnswer, sentAt: Instant): number {
    if (answer.kind === 'dead') this.#superseded();
    else if (answer.kind === 'replaced') this.endReplaced();
    else if (answer.kind === 'stale') return 0;
    else return this.#onAlive(answer, sentAt);
    return Number.POSITIVE_INFINITY;
  }

  #onAlive(answer: BeatAnswer & { kind: 'alive' }, sentAt: Instant): number {
    // Before trust is extended: what was held when it ran out is lost, and so is what the store does not confirm.
    this.#lease.check();
    // In a new era only what this heartbeat listed can be confirmed: a grant that came after it may be void.
    const isEraNew = answer.era !== this.#era;
    if (isEraNew) this.#tickets.keepListed(this.#view);
    this.#noteEra(answer.era, answer.quarantined);
    this.#onLost(answer.lost, isEraNew);
    if (this.#phase !== 'joined') return Number.POSITIVE_INFINITY;
    this.#trust(sentAt);
    this.#onNews(answer.news, answer.era);
    for (const note of answer.notes) this.#onNote(note);
    this.#wakes.expectPing(this.#instance);
    this.#batches.kick();
    if (this.#phase !== 'joined') return Number.POSITIVE_INFINITY;
    return answer.more ? 0 : this.#nextBeatMs(sentAt);
  }

  #onLost(lost: readonly Grant[], isEraNew: boolean): void {
    const isForgotten = isEraNew || this.#wasEraNew;
    this.#wasEraNew = isEraNew;
    const messages = isForgotten ? this.#tickets.messages(lost.map(({ seq }) => seq)) : [];
    for (const ticket of lost) this.#tickets.onLost(ticket);
    this.#tellForgotten(messages);
  }

  #tellForgotten(messages: readonly Ticket[]): void {
    if (messages.length > 0) this.#host.emit('forgotten', { messages });
  }

  #nextBeatMs(sentAt: Instant): number {
    const { beatMs, quarantineMs } = this.#settings.timing;
    const everyMs = this.#wakes.areDeaf && this.#tickets.hasWaiting() ? beatMs / 8 : beatMs;
    if (!this.#isQuarantined) return everyMs;
    return Math.min(everyMs, Math.max(1, this.#eraSinceMs + quarantineMs - sentAt.monotonicMs));
  }

  #trust(sentAt: Instant): void {
    this.#lease.extend(sentAt);
    if (!this.#lease.check()) return;
    this.#lastError = new NoAnswer();
    if (this.#backend.answered()) this.#host.cameBack();
    this.#tickets.deliverAll();
  }

  #lapse(): void {
    this.#tickets.lapse(this.#heartbeat.isBlocked());
    // Holders that let go need not wait for an answer: their key is free by the lease, if not by the release.
    for (const pending of this.#batches.all()) if (!isTaking(pending)) pending.reject(this.#lastError);
    this.#backend.expectAnswer();
    this.beatNow();
  }

  #goDown(): void {
    const error = unavailable('Waiting ended', this.#lastError);
    this.#tickets.refuseWaiting(error);
    for (const pending of this.#batches.recall((each) => isTaking(each) && !each.sent)) pending.reject(error);
    for (const pending of this.#batches.all()) if (isTaking(pending)) pending.reject(error);
    this.#questions.end(error);
    this.#host.wentDown(error);
  }

  #onFailure(error: unknown): void {
    // That there was none says less than whatever was said before.
    if (!(error instanceof NoAnswer)) this.#lastError = asError(error);
  }

  /** Resolves when the backend answers again, or when this seat is over. */
  up(): Promise<void> {
    const isOver = this.#phase === 'off' || this.#phase === 'replaced';
    if (isOver || (this.#phase === 'joined' && this.#lease.check())) return Promise.resolve();
    return this.#backend.nextAnswer();
  }

  #noteEra(era: number, isQuarantined: boolean): void {
    this.#isQuarantined = isQuarantined;
    if (era === this.#era) return;
    const { clock, timing } = this.#settings;
    this.#era = era;
    this.#eraSinceMs = clock.monotonicMs();
    this.#tickets.forgetEarly();
    if (!isQuarantined) return;
    const cause = 'the store was restarted, replaced or set back, and may have lost writes';
    this.#host.emit('quarantine', { untilMs: clock.wallMs() + timing.quarantineMs, cause });
  }

  // ── Calls ──────────────────────────────────────────────────────────────────────────────────────────────────────────

  /** Takes a place; `null` where none was given (busy, or a duplicate). */
  take(op: Op, onTaken: (place: Place | null) => void, onRefused: (error: Error) => void): void {
    const onDone = (taken: Taken | null, isAbandoned: boolean): void => {
      const place = taken === null ? null : this.#addPlace(op.key, taken.seq, taken.fence, op.op === 'accept');
      // Taken while stop() was under way: it goes to somebody else with the rest.
      if (this.#phase === 'leaving') this.#tickets.endAll('stopped');
      if (!isAbandoned) onTaken(place);
      else if (place !== null) this.#giveUp(op, place);
    };
    this.#call(op, onDone, onRefused);
  }

  /**
   * Its caller was told that nothing was taken. A message with an id stays in the mesh all the same, for whoever adopts it:
   * delivered again meanwhile, here or elsewhere, it was called a duplicate of this one.
   */
  #giveUp(op: Op, place: Place): void {
    if (op.op === 'accept' && op.id !== null && this.#host.hasAdopted()) this.#tickets.pass(place);
    else this.#tickets.withdraw(place);
  }

  /** An operation that gives this replica no place. Whether anything came of it. */
  order(op: Op): Promise<boolean> {
    return new Promise((resolve, reject) => {
      this.#call(op, (taken) => resolve(taken !== null), reject);
    });
  }

  /** A step outside the batches; `what` names the public call. */
  ask<T>(what: string, call: (store: Store) => Promise<T>): Promise<T> {
    const refusal = this.#refusal(what);
    return refusal === undefined ? this.#questions.ask(what, () => call(this.#store)) : Promise.reject(refusal);
  }

  /** Why nothing can be asked of the store now, if so. */
  #refusal(what: string): Error | undefined {
    if (this.#phase !== 'joined' && this.#phase !== 'joining') return this.#endedError();
    return this.isDown ? unavailable(what, this.#lastError) : undefined;
  }

  #isTooLong(op: Op): Error | undefined {
    const limit = Math.min(this.#settings.maxBodyBytes, this.#store.maxBodyBytes ?? Number.POSITIVE_INFINITY);
    const bytes = bytesAbove(op, limit);
    return bytes === undefined ? undefined : tooLong(op, bytes, limit);
  }

  /** `onDone` hears the result also when the caller was refused meanwhile. */
  #call(op: Op, onDone: (taken: Taken | null, isAbandoned: boolean) => void, onRefused: (error: Error) => void): void {
    const refusal = this.#refusal(callOf(op)) ?? this.#isTooLong(op);
    if (refusal !== undefined) {
      onRefused(refusal);
      return;
    }
    const pending: Pending = {
      op,
      sent: false,
      abandoned: false,
      isUnsure: false,
      settle: (taken) => onDone(taken, pending.abandoned),
      reject: (error) => {
        if (pending.abandoned) return;
        pending.abandoned = true;
        onRefused(error);
      },
    };
    this.#batches.push(pending);
  }

  /** The place a ticket of a chat stands for, or an error that says why there is none, or undefined for a ticket never seen. */
  find(key: string, seq: number, epoch: number | undefined): Place | LeaseLostError | undefined {
    const place = this.#tickets.get(seq);
    const isIt = place?.kind === 'turn' && place.name === key && (epoch === undefined || epoch === this.#epoch);
    if (isIt) return place;
    const isLeaving = this.#phase === 'leaving' && epoch === this.#epoch;
    const reason = epoch === undefined ? undefined : isLeaving ? 'stopped' : this.#former.get(epoch);
    return reason === undefined ? undefined : new LeaseLostError(reason);
  }

  acquire(place: Place, options: AcquireTurnOptions, isCampaign = false): Promise<Hold> {
    if (this.isDown && !isCampaign && place.stage === 'open' && !options.signal?.aborted) {
      const call = place.kind === 'turn' ? 'acquireTurn()' : 'tryLead()';
      const error = unavailable(call, this.#lastError);
      this.#tickets.refuse(place, error);
      return Promise.reject(error);
    }
    return this.#tickets.acquire(place, options, isCampaign);
  }

  withdraw(place: Place): void {
    this.#tickets.withdraw(place);
  }

  finish(place: Place, onLanded: (() => void) | undefined): Promise<void> {
    return this.#tickets.finish(place, onLanded);
  }

  passWaiting(): void {
    this.#tickets.passWaiting();
  }

  #addPlace(key: string, seq: number, fence: number, isMessage: boolean): Place {
    this.#note(Math.max(seq, fence));
    return this.#tickets.add(key, seq, fence, isMessage);
  }

  #sendBatch(batch: number, ops: readonly Op[]): Promise<ApplyAnswer> {
    this.#lease.check();
    return this.#store.apply({ epoch: this.#epoch, instance: this.#instance, batch, ops });
  }

  // ── What the store says ────────────────────────────────────────────────────────────────────────────────────────────

  #onApplied(answer: ApplyAnswer, pending: readonly Pending[]): void {
    if (answer.kind === 'applied') {
      this.#onResults(answer, pending);
      return;
    }
    // Nothing of it was done. It is carried over with the rest, or ends with it.
    this.#batches.putBack(pending);
    if (this.#phase === 'leaving') this.#drop(new LeaseLostError('stopped'));
    else if (answer.kind === 'replaced') this.endReplaced();
    else this.#superseded();
  }

  #onResults(answer: ApplyAnswer & { kind: 'applied' }, pending: readonly Pending[]): void {
    const isBelieved = this.#believes(answer.era);
    if (!isBelieved) this.#tickets.forgetEarly();
    for (let at = 0; at < pending.length; at += 1) {
      const taken = answer.results[at] ?? null;
      const each = pending[at]!;
      each.settle(taken === null || isBelieved || !isTaking(each) ? taken : { seq: taken.seq, fence: 0 });
    }
    this.#tickets.forgetEarly();
    this.#onNews(answer.news, answer.era);
    if (answer.era !== this.#era) this.beatNow();
  }

  #onNews(news: News, era: number): void {
    const isBelieved = this.#believes(era);
    const isLeaving = this.#phase === 'leaving';
    for (const grant of news.grants) {
      this.#note(grant.fence);
      if (isBelieved) this.#tickets.onGrant(grant, false);
    }
    for (const adoption of news.adopted) {
      if (isLeaving || this.#tickets.get(adoption.seq) !== undefined) continue;
      const { key, seq, fence } = adoption;
      const place = this.#addPlace(key, seq, isBelieved ? fence : 0, true);
      // The store heard too late that nobody listens here any more.
      if (this.#host.adopts()) this.#host.adopted(place, adoption);
      else this.#tickets.pass(place);
    }
    this.#tellParked(news.parked);
  }

  #tellParked(notices: readonly ParkedNotice[]): void {
    for (const { key, id, attempts, error } of notices) {
      const parked = { key: key.slice(2), id: id ?? undefined, attempts };
      this.#host.emit('parked', error === null ? parked : { ...parked, error });
    }
  }

  /** Comes once: the next heartbeat tells the store that it was heard. */
  #onNote(note: Note): void {
    this.#heard = note.at;
    this.#note(note.at);
    this.#tickets.onNote(note, this.#batches.isInFlight);
  }

  #onPush(push: Push): void {
    if (push.epoch !== this.#epoch || this.#phase !== 'joined') return;
    switch (push.kind) {
      case 'ping':
        this.#wakes.heardPing();
        break;
      case 'grant':
        this.#note(push.fence);
        if (this.#believes(push.era)) this.#tickets.onGrant(push, this.#batches.isInFlight);
        break;
      case 'look':
        this.beatNow();
        break;
      case 'replaced':
        this.endReplaced();
        break;
    }
  }

  /**
   * Whether a grant of `era` may be believed. One of another era than the last heartbeat's may be void; one that comes
   * without trust may be long void, though the store, set back, would confirm it. The next heartbeat asks anew.
   */
  #believes(era: number): boolean {
    return era === this.#era && this.#lease.check();
  }

  /** Runs what may call listeners, so that a stop() of theirs waits until it is done. */
  #takeIn<T>(run: () => T): T {
    this.#busy += 1;
    try {
      return run();
    } finally {
      this.#busy -= 1;
    }
  }

  // ── Small things ───────────────────────────────────────────────────────────────────────────────────────────────────

  #note(stamp: number): void {
    if (stamp > this.#seen) this.#seen = stamp;
  }

  #endedError(): Error {
    if (this.#phase === 'replaced') return new LeaseLostError('replaced');
    if (this.#isDead) return crashed();
    if (this.#instance === '') {
      return new LifecycleError('not-started', 'The coordinator is not started: call start() first.');
    }
    return new LifecycleError('stopped', 'The coordinator was stopped: call start() to join again.');
  }
}

/** Whether somebody waits for its result. */
function isTaking(pending: Pending): boolean {
  return pending.op.op !== 'release';
}

/** Made again under another epoch it does no harm: the place of the old one is skipped. */
function isPlace({ op }: Op): boolean {
  return op === 'reserve' || op === 'try';
}
