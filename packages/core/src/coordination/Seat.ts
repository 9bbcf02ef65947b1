import {
  ConfigError,
  CoordinationUnavailableError,
  LeaseLostError,
  type LeaseLostReason,
  LifecycleError,
} from '../errors.js';
import { type Instant, instant, type Timer } from '../time/clock.js';
import { Batches, type Pending } from './batches.js';
import { Hold, type Keeper } from './held.js';
import { Lease } from './lease.js';
import type { Settings } from './options.js';
import {
  type Adoption,
  type ApplyAnswer,
  type BeatAnswer,
  FORMAT,
  type Grant,
  type JoinAnswer,
  type News,
  type Op,
  type Push,
  type ReleaseHow,
  type Store,
  type Taken,
} from './store.js';
import type { AcquireTurnOptions, CoordinatorEvents } from './types.js';
import { type Place, Places, Wait } from './waiting.js';

/** What a seat tells the coordinator it belongs to. */
export interface SeatHost {
  readonly settings: Settings;
  readonly shards: number;
  /** Whether somebody here takes over messages. */
  adopts(): boolean;
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

/** This many answered heartbeats in a row without their ping mean that pushes do not arrive. */
const PINGS_MISSED = 2;
const FORMER_KEPT = 64;

/** One replica's seat in one shard: its epoch, its heartbeat, its tickets. The protocol's client side is here, once. */
export class Seat implements Keeper {
  readonly #host: SeatHost;
  readonly #store: Store;
  readonly #settings: Settings;
  readonly #lease: Lease;
  readonly #batches: Batches;
  #places = new Places();
  /** Grants that came before the answer which names their ticket. */
  #early = new Map<number, Grant>();
  /** Epochs this seat had, and why they ended. */
  readonly #former = new Map<number, LeaseLostReason>();

  #phase: Phase = 'off';
  #instance = '';
  #epoch = 0;
  #firstEpoch = 0;
  #seen = 0;
  #era = 0;
  #eraSinceMs = 0;
  #isQuarantined = false;

  #beatTimer: Timer | undefined;
  #beatDueMs = 0;
  #attempt: { timer: Timer } | undefined;
  #beatAgain = false;

  #isDown = false;
  #downTimer: Timer | undefined;
  #lastError: Error = new Error('No answer from the backend.');
  #whenUp: (() => void)[] = [];

  #pingsMissed = 0;
  #unsubscribe: (() => Promise<void>) | undefined;

  constructor(host: SeatHost, store: Store) {
    this.#host = host;
    this.#store = store;
    this.#settings = host.settings;
    const { clock, timing } = this.#settings;
    this.#lease = new Lease(clock, timing.trustMs, () => this.#lapse());
    this.#batches = new Batches({
      clock,
      attemptMs: timing.attemptMs,
      canSend: () => (this.#phase === 'joined' && !this.#isDown) || this.#phase === 'leaving',
      send: (batch, ops) => this.#store.apply({ epoch: this.#epoch, instance: this.#instance, batch, ops }),
      onAnswer: (answer, pending) => this.#onApplied(answer, pending),
      onFailure: (error) => {
        this.#lastError = error;
      },
    });
  }

  get epoch(): number {
    return this.#epoch;
  }

  get isDown(): boolean {
    return this.#isDown;
  }

  // ── Joining and leaving ────────────────────────────────────────────────────────────────────────────────────────────

  /** Joins, trying for one lease. */
  async start(): Promise<void> {
    const { clock, timing } = this.#settings;
    this.#phase = 'joining';
    this.#instance = clock.uniqueId();
    this.#firstEpoch = 0;
    const startedMs = clock.monotonicMs();
    for (;;) {
      const answer = await this.#tryJoin();
      if (this.#phase === 'joined') return;
      if (this.#phase !== 'joining') throw this.#endedError();
      if (answer instanceof Error) this.#lastError = answer;
      else if (answer.kind === 'refused') throw this.#end('off', mismatch(answer.found, this.#config()));
      else if (answer.kind === 'replaced') throw this.#end('replaced', new LeaseLostError('replaced'));
      if (clock.monotonicMs() - startedMs >= timing.leaseMs) {
        throw this.#end('off', unavailable('start(): the backend did not answer', this.#lastError));
      }
      await this.#pause();
    }
  }

  /** Ends what is held, hands everything over, and lets go of the store. Bounded by the lease; never rejects. */
  async stop(): Promise<void> {
    const wasIn = this.#phase === 'joined';
    if (this.#phase === 'off' || this.#phase === 'leaving') return;
    if (this.#phase !== 'replaced') this.#phase = 'leaving';
    const { clock, timing } = this.#settings;
    const untilMs = clock.monotonicMs() + Math.max(timing.beatMs, this.#lease.remainingMs());
    this.#stopClocks();
    this.#dropAll('stopped');
    for (const pending of this.#batches.recall(isTaking)) pending.reject(new LeaseLostError('stopped'));
    if (wasIn) await this.#handOver(untilMs);
    this.#remember('stopped');
    this.#reset('stopped');
    await this.#detach();
    if (this.#phase === 'leaving') this.#phase = 'off';
  }

  /** Ends at once and without a word to anybody, as a crash would. */
  die(): void {
    if (this.#phase === 'off') return;
    this.#stopClocks();
    this.#dropAll('expired', 'superseded');
    this.#remember('superseded');
    this.#reset('superseded');
    this.#phase = 'off';
    void this.#detach();
  }

  async #handOver(untilMs: number): Promise<void> {
    const { clock } = this.#settings;
    this.#batches.kick();
    // Releases of work that was finished go first: leaving would hand that work to somebody else.
    await this.#within(this.#batches.idle(), untilMs - clock.monotonicMs());
    while (clock.monotonicMs() < untilMs) {
      const leaving = this.#store.leave({ epoch: this.#epoch, instance: this.#instance });
      const answer = await this.#within(leaving, this.#settings.timing.beatMs);
      if (!(answer instanceof Error)) return;
      await this.#pause();
    }
  }

  async #detach(): Promise<void> {
    const unsubscribe = this.#unsubscribe;
    this.#unsubscribe = undefined;
    await unsubscribe?.().catch(() => {});
    await this.#store.close().catch(() => {});
  }

  /** One attempt to join; an error when it came to nothing. */
  async #tryJoin(): Promise<JoinAnswer | Error> {
    const { clock, timing, replicaId } = this.#settings;
    const instance = this.#instance;
    if (this.#unsubscribe === undefined) {
      const subscribed = await this.#within(
        this.#store.subscribe(instance, (push) => this.#onPush(push)),
        timing.beatMs,
      );
      if (subscribed instanceof Error) return subscribed;
      this.#unsubscribe = subscribed;
    }
    const sentAt = instant(clock);
    const joining = this.#store.join({
      replicaId,
      instance,
      firstEpoch: this.#firstEpoch,
      config: this.#config(),
      adopts: this.#host.adopts(),
      seen: this.#seen,
    });
    const answer = await this.#within(joining, timing.beatMs);
    if (answer instanceof Error || answer.kind !== 'joined') return answer;
    if (this.#phase !== 'joining') {
      void this.#store.leave({ epoch: answer.epoch, instance }).catch(() => {});
      return answer;
    }
    this.#sitDown(answer, sentAt);
    return answer;
  }

  #sitDown(answer: JoinAnswer & { kind: 'joined' }, sentAt: Instant): void {
    this.#epoch = answer.epoch;
    if (this.#firstEpoch === 0) this.#firstEpoch = answer.epoch;
    this.#note(answer.epoch);
    this.#phase = 'joined';
    this.#pingsMissed = 0;
    this.#noteEra(answer.era, answer.quarantined);
    this.#trust(sentAt);
    this.#scheduleBeat(sentAt);
    this.#batches.kick();
  }

  #config() {
    return { format: FORMAT, leaseMs: this.#settings.timing.leaseMs, shards: this.#host.shards };
  }

  /** The store counts our epoch as dead: everything of it is lost. Join again as a new epoch. */
  #superseded(): void {
    const former = this.#epoch;
    this.#stopClocks();
    this.#dropAll('superseded');
    this.#remember('superseded');
    const rest = this.#batches.reset();
    this.#phase = 'joining';
    this.#awaitAnswer();
    for (const pending of rest) this.#carryOver(pending);
    void this.#joinAgain(former);
  }

  /** What becomes of a call whose batch the dead epoch cannot finish. */
  #carryOver(pending: Pending): void {
    if (pending.abandoned) return;
    if (!isTaking(pending)) pending.settle(null);
    else if (pending.op.op === 'accept' && pending.sent)
      pending.reject(unavailable('accept(): no answer came', this.#lastError));
    else if (this.#isDown) pending.reject(unavailable(`${pending.op.op}()`, this.#lastError));
    else this.#batches.push(pending);
  }

  async #joinAgain(former: number): Promise<void> {
    while (this.#phase === 'joining') {
      const answer = await this.#tryJoin().catch(asError);
      if (answer instanceof Error) this.#lastError = answer;
      else if (answer.kind === 'joined') {
        this.#host.emit('superseded', { epoch: former, successor: answer.epoch });
        return;
      } else if (answer.kind === 'replaced') {
        this.#replaced();
        return;
      } else this.#lastError = mismatch(answer.found, this.#config());
      await this.#pause();
    }
  }

  /** A newer start has our name. Over for good: say so to the store, so that what we held is free at once. */
  #replaced(): void {
    if (this.#phase === 'replaced' || this.#phase === 'off') return;
    const { epoch } = this;
    this.#phase = 'replaced';
    this.#stopClocks();
    this.#dropAll('replaced');
    this.#remember('replaced');
    this.#reset('replaced');
    void this.#store.leave({ epoch, instance: this.#instance }).catch(() => {});
    this.#host.wasReplaced();
  }

  /** The coordinator is done because another of its seats was replaced. */
  endReplaced(): void {
    this.#replaced();
  }

  /** For a start that came to nothing. */
  #end(phase: 'off' | 'replaced', error: Error): Error {
    this.#phase = phase;
    this.#stopClocks();
    this.#reset(phase === 'off' ? 'stopped' : 'replaced');
    void this.#detach();
    return error;
  }

  #reset(reason: LeaseLostReason): void {
    for (const pending of this.#batches.reset()) {
      if (isTaking(pending)) pending.reject(new LeaseLostError(reason));
      else pending.settle(null);
    }
    this.#isDown = false;
    this.#wakeUps();
  }

  #remember(reason: LeaseLostReason): void {
    if (this.#epoch !== 0) this.#former.set(this.#epoch, reason);
    this.#epoch = 0;
    for (const epoch of this.#former.keys()) {
      if (this.#former.size <= FORMER_KEPT) break;
      this.#former.delete(epoch);
    }
  }

  /** Every hold, wait and place of this epoch ends. */
  #dropAll(reason: LeaseLostReason, waitReason: LeaseLostReason = reason): void {
    this.#lease.end();
    const places = this.#places.all();
    this.#places = new Places();
    this.#early.clear();
    for (const place of places) {
      if (place.stage === 'held') this.#lose(place, reason);
      place.wait?.reject(new LeaseLostError(waitReason));
      place.wait = undefined;
      place.stage = 'lost';
    }
  }

  #stopClocks(): void {
    const { clock } = this.#settings;
    this.#lease.end();
    if (this.#beatTimer !== undefined) clock.clearTimer(this.#beatTimer);
    if (this.#attempt !== undefined) clock.clearTimer(this.#attempt.timer);
    if (this.#downTimer !== undefined) clock.clearTimer(this.#downTimer);
    this.#beatTimer = undefined;
    this.#attempt = undefined;
    this.#downTimer = undefined;
    this.#beatAgain = false;
  }

  // ── Heartbeat ──────────────────────────────────────────────────────────────────────────────────────────────────────

  #scheduleBeat(from: Instant): void {
    const { clock, timing } = this.#settings;
    let dueMs = from.monotonicMs + this.#beatEveryMs();
    if (this.#isQuarantined)
      dueMs = Math.min(dueMs, Math.max(from.monotonicMs + 1, this.#eraSinceMs + timing.quarantineMs));
    this.#beatAt(dueMs, clock.monotonicMs());
  }

  #beatEveryMs(): number {
    const { beatMs } = this.#settings.timing;
    return this.#pingsMissed > PINGS_MISSED && this.#places.hasWaiting() ? beatMs / 8 : beatMs;
  }

  #beatAt(dueMs: number, nowMs: number): void {
    const { clock } = this.#settings;
    if (this.#beatTimer !== undefined) clock.clearTimer(this.#beatTimer);
    this.#beatDueMs = dueMs;
    this.#beatTimer = clock.setTimer(Math.max(0, dueMs - nowMs), () => {
      this.#beatTimer = undefined;
      this.#beat();
    });
  }

  /** A heartbeat as soon as the one under way, if any, is answered. */
  beatNow(): void {
    if (this.#phase !== 'joined') return;
    if (this.#attempt !== undefined) this.#beatAgain = true;
    else this.#beatAt(this.#settings.clock.monotonicMs(), this.#settings.clock.monotonicMs());
  }

  #beat(): void {
    if (this.#phase !== 'joined' || this.#attempt !== undefined) return;
    const { clock, timing } = this.#settings;
    const lateMs = clock.monotonicMs() - this.#beatDueMs;
    if (lateMs > timing.trustMs / 4) this.#host.emit('late', { lateMs });
    this.#lease.check();
    this.#lookAtPlaces();
    this.#beatAgain = false;

    const sentAt = instant(clock);
    const attempt = {
      timer: clock.setTimer(timing.attemptMs, () =>
        this.#beatFailed(attempt, new Error('The backend did not answer.'), 0),
      ),
    };
    this.#attempt = attempt;
    this.#store
      .beat({
        epoch: this.#epoch,
        instance: this.#instance,
        era: this.#era,
        watchedMs: clock.monotonicMs() - this.#eraSinceMs,
        seen: this.#seen,
        adopts: this.#host.adopts(),
        answered: this.#batches.answered,
        view: this.#places.view(),
      })
      .then(
        (answer) => this.#onBeat(attempt, answer, sentAt),
        (error: unknown) => this.#beatFailed(attempt, error as Error, 0.25 + clock.random() / 2),
      );
  }

  #beatFailed(attempt: object, error: Error, pause: number): void {
    if (this.#attempt !== attempt) return;
    this.#settings.clock.clearTimer(this.#attempt.timer);
    this.#attempt = undefined;
    this.#lastError = error;
    const nowMs = this.#settings.clock.monotonicMs();
    this.#beatAt(nowMs + pause * this.#settings.timing.attemptMs, nowMs);
  }

  /** The answer of the attempt under way. Those of abandoned attempts are not looked at: they are out of date. */
  #onBeat(attempt: object, answer: BeatAnswer, sentAt: Instant): void {
    if (this.#attempt !== attempt) return;
    this.#settings.clock.clearTimer(this.#attempt.timer);
    this.#attempt = undefined;
    if (answer.kind === 'dead') return this.#superseded();
    if (answer.kind === 'replaced') return this.#replaced();
    // Before trust is extended: what was held when it ran out is lost, and so is what the store does not confirm.
    this.#lease.check();
    this.#noteEra(answer.era, answer.quarantined);
    for (const ticket of answer.lost) this.#onLost(ticket);
    this.#trust(sentAt);
    this.#onNews(answer.news, answer.era);
    this.#countPing();
    this.#batches.kick();
    if (answer.more || this.#beatAgain) this.beatNow();
    else this.#scheduleBeat(sentAt);
  }

  #trust(sentAt: Instant): void {
    this.#lease.extend(sentAt);
    if (!this.#lease.check()) return;
    if (this.#downTimer !== undefined) this.#settings.clock.clearTimer(this.#downTimer);
    this.#downTimer = undefined;
    if (this.#isDown) {
      this.#isDown = false;
      this.#host.cameBack();
    }
    this.#wakeUps();
    for (const place of this.#places.all()) this.#deliver(place);
  }

  #wakeUps(): void {
    const waiting = this.#whenUp;
    this.#whenUp = [];
    for (const wake of waiting) wake();
  }

  /** Resolves when the backend has answered again, or when this seat is over. */
  up(): Promise<void> {
    if (this.#phase === 'joined' && this.#lease.check()) return Promise.resolve();
    if (this.#phase === 'off' || this.#phase === 'replaced') return Promise.resolve();
    return new Promise((resolve) => this.#whenUp.push(resolve));
  }

  #noteEra(era: number, isQuarantined: boolean): void {
    const { clock, timing } = this.#settings;
    if (era !== this.#era) {
      this.#era = era;
      this.#eraSinceMs = clock.monotonicMs();
      this.#early.clear();
      if (isQuarantined) {
        const untilMs = clock.wallMs() + timing.quarantineMs;
        const cause = 'the store was restarted, replaced or set back, and may have lost writes';
        this.#host.emit('quarantine', { untilMs, cause });
      }
    }
    this.#isQuarantined = isQuarantined;
  }

  /** Every heartbeat brings a ping by the way of pushes. Where it stays away, pushes do. */
  #countPing(): void {
    this.#pingsMissed += 1;
    if (this.#pingsMissed !== PINGS_MISSED + 1) return;
    this.#host.emit('wakeDegraded', {});
    void this.#subscribeAgain();
  }

  async #subscribeAgain(): Promise<void> {
    const former = this.#unsubscribe;
    const renewed = await this.#within(
      this.#store.subscribe(this.#instance, (push) => this.#onPush(push)),
      this.#settings.timing.beatMs,
    );
    if (renewed instanceof Error) return;
    if (this.#phase === 'joined') this.#unsubscribe = renewed;
    else await renewed().catch(() => {});
    await former?.().catch(() => {});
  }

  // ── Losing trust ───────────────────────────────────────────────────────────────────────────────────────────────────

  /** Trust ran out: whoever holds a key learns it now. Who waits may go on waiting if the store still knows us. */
  #lapse(): void {
    for (const place of this.#places.all()) {
      if (place.stage === 'held') {
        this.#lose(place, 'expired');
        this.#give(place, place.isMessage ? 'return' : 'withdraw');
      } else if (place.stage !== 'ending') place.fence = 0;
    }
    // Their holders need not wait for an answer: the key is free for others by the lease, if not by the release.
    for (const pending of this.#batches.all()) if (!isTaking(pending)) pending.reject(this.#lastError);
    this.#awaitAnswer();
    this.beatNow();
  }

  /** Unless the store answers soon, it is down. */
  #awaitAnswer(): void {
    if (this.#isDown || this.#downTimer !== undefined) return;
    const { clock, timing } = this.#settings;
    this.#downTimer = clock.setTimer(timing.attemptMs, () => {
      this.#downTimer = undefined;
      this.#goDown();
    });
  }

  #goDown(): void {
    this.#isDown = true;
    const error = unavailable('The coordination backend does not answer', this.#lastError);
    for (const place of this.#places.all()) {
      if (place.stage !== 'waiting' || place.isCampaign) continue;
      place.wait?.reject(error);
      this.#give(place, place.isMessage ? 'return' : 'withdraw');
    }
    for (const pending of this.#batches.recall((each) => isTaking(each) && !each.sent)) pending.reject(error);
    for (const pending of this.#batches.all()) if (isTaking(pending)) pending.reject(error);
    this.#host.wentDown(error);
  }

  #lose(place: Place, reason: LeaseLostReason): void {
    const { hold } = place;
    place.hold = undefined;
    if (hold === undefined) return;
    hold.lose(new LeaseLostError(reason));
    this.#host.emit('lost', { kind: place.kind, key: place.name, fence: hold.fence, reason });
  }

  // ── Places ─────────────────────────────────────────────────────────────────────────────────────────────────────────

  /** Takes a place; `null` where none was given (busy, or a duplicate). */
  take(op: Op, onTaken: (place: Place | null) => void, onRefused: (error: Error) => void): void {
    if (this.#phase !== 'joined' && this.#phase !== 'joining') return onRefused(this.#endedError());
    if (this.#isDown) return onRefused(unavailable(`${op.op}()`, this.#lastError));
    if (this.#phase === 'joined') this.#lease.check();
    const pending: Pending = {
      op,
      sent: false,
      abandoned: false,
      settle: (taken) => {
        const place = taken === null ? null : this.#addPlace(op.key, taken.seq, taken.fence, op.op === 'accept');
        if (!pending.abandoned) onTaken(place);
        else if (place !== null) this.#give(place, 'withdraw');
      },
      reject: (error) => {
        if (pending.abandoned) return;
        pending.abandoned = true;
        onRefused(error);
      },
    };
    this.#batches.push(pending);
  }

  #addPlace(key: string, seq: number, fence: number, isMessage: boolean): Place {
    this.#note(Math.max(seq, fence));
    const early = this.#early.get(seq);
    const place: Place = {
      key,
      name: key.slice(2),
      kind: key.startsWith('l') ? 'leadership' : 'turn',
      seq,
      isMessage,
      isCampaign: false,
      fence: early?.fence ?? fence,
      stage: 'open',
      sinceMs: this.#settings.clock.monotonicMs(),
      wasTold: false,
      wait: undefined,
      hold: undefined,
      error: undefined,
    };
    this.#places.add(place);
    this.#lookSoon();
    return place;
  }

  /** The place a ticket stands for, or why there is none. */
  find(key: string, seq: number, epoch: number | undefined): Place | Error | undefined {
    const place = this.#places.get(seq);
    if (place !== undefined && place.key === key && (epoch === undefined || epoch === this.#epoch)) return place;
    if (epoch === undefined) return undefined;
    const reason = this.#former.get(epoch);
    if (reason !== undefined) return new LeaseLostError(reason);
    return undefined;
  }

  isCurrent(epoch: number | undefined): boolean {
    return epoch !== undefined && epoch === this.#epoch && this.#epoch !== 0;
  }

  /** Waits until `place` is granted, then holds it. */
  acquire(place: Place, options: AcquireTurnOptions, isCampaign = false): Promise<Hold> {
    const { signal, timeoutMs } = options;
    place.isCampaign = isCampaign;
    if (place.stage === 'lost') {
      this.#places.delete(place);
      return Promise.reject(place.error ?? new LeaseLostError('superseded'));
    }
    if (signal?.aborted) {
      this.withdraw(place);
      return Promise.reject(signal.reason);
    }
    if (this.#isDown && !isCampaign) {
      this.#give(place, place.isMessage ? 'return' : 'withdraw');
      return Promise.reject(unavailable('acquireTurn()', this.#lastError));
    }
    if (place.fence !== 0 && this.#isFresh()) return Promise.resolve(this.#hold(place));
    return new Promise((resolve, reject) => {
      const wait = new Wait(this.#settings.clock, resolve, reject);
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
      if (place.fence !== 0) this.beatNow();
    });
  }

  /** Its caller gave it up. */
  withdraw(place: Place): void {
    if (place.stage === 'open' || place.stage === 'waiting') this.#give(place, 'withdraw');
  }

  /** Whether enough trust is left that a turn granted now is worth having. */
  #isFresh(): boolean {
    return this.#lease.check() && this.#lease.remainingMs() >= this.#settings.timing.trustMs / 4;
  }

  #hold(place: Place): Hold {
    const hold = new Hold(this, place.seq, place.name, place.fence);
    place.stage = 'held';
    place.hold = hold;
    place.wait = undefined;
    place.sinceMs = this.#settings.clock.monotonicMs();
    return hold;
  }

  #deliver(place: Place): void {
    const { wait } = place;
    if (place.stage !== 'waiting' || wait === undefined || place.fence === 0) return;
    if (this.#isFresh()) wait.resolve(this.#hold(place));
    else this.beatNow();
  }

  isTrusted(): boolean {
    return this.#phase === 'joined' && this.#lease.check();
  }

  release(hold: Hold, isRetry: boolean): Promise<void> {
    const place = this.#places.get(hold.seq);
    if (place?.hold !== hold) return Promise.resolve();
    place.hold = undefined;
    return new Promise((resolve) => this.#give(place, isRetry && place.isMessage ? 'return' : 'done', resolve));
  }

  /** Gives a place back to the store. It stays in the view until the store has answered. */
  #give(place: Place, how: ReleaseHow, onDone?: () => void): void {
    place.stage = 'ending';
    place.wait = undefined;
    this.#batches.push({
      op: { op: 'release', key: place.key, seq: place.seq, how },
      sent: false,
      abandoned: false,
      settle: () => {
        if (this.#places.get(place.seq) === place) this.#places.delete(place);
        onDone?.();
      },
      reject: () => onDone?.(),
    });
    if (!this.#lease.check()) onDone?.();
  }

  /** Heartbeats look for forgotten places; a shorter limit needs a look of its own. */
  #lookSoon(): void {
    const { clock, ticketTtlMs, timing } = this.#settings;
    if (ticketTtlMs < timing.beatMs) clock.setTimer(ticketTtlMs, () => this.#lookAtPlaces());
  }

  /** Gives back what was forgotten, tells of what is held for long, drops what was lost and never asked for. */
  #lookAtPlaces(): void {
    const { clock, heldWarnMs, ticketTtlMs } = this.#settings;
    const nowMs = clock.monotonicMs();
    for (const place of this.#places.all()) {
      const ageMs = nowMs - place.sinceMs;
      if (place.stage === 'held' && ageMs >= heldWarnMs && !place.wasTold) {
        place.wasTold = true;
        this.#host.emit('held', { key: place.name, fence: place.fence, heldMs: ageMs });
      } else if (place.stage === 'open' && place.fence !== 0 && ageMs >= ticketTtlMs) {
        this.#give(place, place.isMessage ? 'return' : 'withdraw');
        this.#host.emit('ticketLeaked', { key: place.name, seq: place.seq });
      } else if (place.stage === 'lost' && ageMs >= ticketTtlMs) this.#places.delete(place);
    }
  }

  // ── What the store says ────────────────────────────────────────────────────────────────────────────────────────────

  #onApplied(answer: ApplyAnswer, pending: readonly Pending[]): void {
    if (answer.kind === 'applied') {
      // A grant from another era than the last heartbeat's may be void: the next heartbeat tells.
      const isSameEra = answer.era === this.#era;
      pending.forEach((each, at) => {
        const taken = answer.results[at] ?? null;
        each.settle(taken === null || isSameEra ? taken : { seq: taken.seq, fence: 0 });
      });
      this.#early.clear();
      this.#onNews(answer.news, answer.era);
      if (!isSameEra) this.beatNow();
      return;
    }
    if (this.#phase === 'leaving') return pending.forEach(giveUp);
    // Put back what was in flight, so that it is carried over with the rest.
    this.#interrupted(pending);
    if (answer.kind === 'replaced') this.#replaced();
    else this.#superseded();
  }

  #interrupted(pending: readonly Pending[]): void {
    const rest = this.#batches.reset();
    for (const each of [...pending, ...rest]) this.#batches.push(each);
  }

  #onNews(news: News, era: number): void {
    if (era === this.#era) for (const grant of news.grants) this.#onGrant(grant);
    for (const adoption of news.adopted) this.#onAdopted(adoption, era === this.#era);
    for (const { key, id, attempts } of news.parked) {
      this.#host.emit('parked', { key: key.slice(2), id: id ?? undefined, attempts });
    }
  }

  #onGrant(grant: Grant): void {
    this.#note(grant.fence);
    const place = this.#places.get(grant.seq);
    if (place === undefined) {
      // Perhaps the answer that names this ticket is still on its way. If not, the next heartbeat gives it back.
      if (this.#batches.isInFlight) this.#early.set(grant.seq, grant);
      return;
    }
    if (place.stage !== 'open' && place.stage !== 'waiting') return;
    if (grant.fence <= place.fence) return;
    place.fence = grant.fence;
    place.sinceMs = this.#settings.clock.monotonicMs();
    this.#lookSoon();
    this.#deliver(place);
  }

  #onAdopted(adoption: Adoption, isSameEra: boolean): void {
    if (this.#places.get(adoption.seq) !== undefined) return;
    const place = this.#addPlace(adoption.key, adoption.seq, isSameEra ? adoption.fence : 0, true);
    this.#host.adopted(place, adoption);
  }

  #onLost(ticket: Grant): void {
    const place = this.#places.get(ticket.seq);
    if (place === undefined || place.fence !== ticket.fence || place.stage === 'ending' || place.stage === 'lost')
      return;
    if (place.stage === 'held') this.#lose(place, 'superseded');
    place.error = new LeaseLostError('superseded');
    place.sinceMs = this.#settings.clock.monotonicMs();
    const { wait, stage } = place;
    place.wait = undefined;
    place.stage = 'lost';
    if (stage !== 'open') this.#places.delete(place);
    wait?.reject(place.error);
  }

  #onPush(push: Push): void {
    if (push.epoch !== this.#epoch || this.#phase !== 'joined') return;
    switch (push.kind) {
      case 'ping':
        this.#pingsMissed = 0;
        return;
      case 'grant':
        if (push.era === this.#era) this.#onGrant(push);
        return;
      case 'look':
        return this.beatNow();
      case 'replaced':
        return this.#replaced();
    }
  }

  // ── Small things ───────────────────────────────────────────────────────────────────────────────────────────────────

  #note(stamp: number): void {
    if (stamp > this.#seen) this.#seen = stamp;
  }

  #endedError(): Error {
    if (this.#phase === 'replaced') return new LeaseLostError('replaced');
    if (this.#instance === '')
      return new LifecycleError('not-started', 'The coordinator is not started: call start() first.');
    return new LifecycleError('stopped', 'The coordinator was stopped: call start() to join again.');
  }

  #pause(share = 0.5): Promise<void> {
    const { clock, timing } = this.#settings;
    return new Promise((resolve) => {
      clock.setTimer(timing.attemptMs * share * (0.5 + clock.random()), resolve);
    });
  }

  /** The promise's value, or an error when it rejects or takes too long. */
  #within<T>(promise: Promise<T>, limitMs: number): Promise<T | Error> {
    const { clock } = this.#settings;
    return new Promise((resolve) => {
      const timer = clock.setTimer(limitMs, () => resolve(new Error('The backend did not answer.')));
      const end = (value: T | Error): void => {
        clock.clearTimer(timer);
        resolve(value);
      };
      promise.then(end, (error: unknown) => end(asError(error)));
    });
  }
}

function isTaking(pending: Pending): boolean {
  return pending.op.op !== 'release';
}

function asError(error: unknown): Error {
  return error instanceof Error ? error : new Error(String(error));
}

function giveUp(pending: Pending): void {
  if (isTaking(pending)) pending.reject(new LeaseLostError('stopped'));
  else pending.settle(null);
}

function unavailable(what: string, cause: Error): CoordinationUnavailableError {
  return new CoordinationUnavailableError(
    'unavailable',
    `${what}: the coordination backend cannot be reached. Try again.`,
    {
      cause,
    },
  );
}

function timedOut(place: Place, timeoutMs: number): CoordinationUnavailableError {
  const message = `acquireTurn(): ticket ${place.seq} was not granted within ${timeoutMs} ms. Its key is busy; the ticket is withdrawn.`;
  return new CoordinationUnavailableError('timeout', message);
}

function mismatch(found: object, given: object): ConfigError {
  const message = `start(): the mesh runs with ${JSON.stringify(found)}, this replica with ${JSON.stringify(given)}. Make them the same, or use another namespace.`;
  return new ConfigError(message, 'config-mismatch');
}
