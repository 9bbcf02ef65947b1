import type { MailTurn } from '../coordination/types.js';
import {
  CancelledError,
  ConfigError,
  CoordinationUnavailableError,
  LeaseLostError,
  LifecycleError,
  NewerVersionError,
  StaleFenceError,
  SupersededByNewerError,
  TurnLimitError,
} from '../errors.js';
import type { Provider, Reply } from '../providers/provider.js';
import type { StoredState, TransactionalStateStore } from '../state/state-store.js';
import type { Clock } from '../time/clock.js';
import { Attempt, type Way } from './Attempt.js';
import type { AccountGate, Guest } from './accounts/AccountGate.js';
import { type Behind, lookBehind, modesOf } from './behind.js';
import { decode, type Message } from './envelope.js';
import type { EndDetail, How, Named } from './fate.js';
import { readNote } from './notes.js';
import type { OneByOne } from './OneByOne.js';
import { collectWaitMs, interrupting, isClosed, plan, type Rule, ruleOf } from './overlap.js';
import type { Pacer } from './Pacer.js';
import { pause } from './pause.js';
import { Run, type RunLimit } from './Run.js';
import { Session } from './Session.js';
import { delayMs, isAway, type StateCall } from './StateOutage.js';
import type { SendRecord, UnknownSends } from './sends.js';
import type { Hearer, TurnSetup, Work } from './setup.js';

/**
 * The life of a message on this replica.
 *
 * - `waiting`: it has its place, other messages of its chat are before it
 * - `opening`: its chat is held; the message and the chat's state are read
 * - `gathering`: what waits behind it is looked at, and waited for
 * - `handling`: the handlers run
 * - `interrupted`: a newer message ended them; what they began to send leaves
 * - `settling`: the last replies leave, the state is saved
 * - `starving`: the state store is away; what it did not do is asked for again, and nothing else
 * - `failing`: an attempt threw; the error hooks run
 * - `cancelling`: it was asked to end for good
 * - `requeueing`: its place was lost and nobody else has it (only without a durable coordinator)
 * - `done`: handled, and marked so
 * - `cancelled`: ended without a result, and marked so
 * - `returned`: given back to be tried again in its place
 * - `left`: no longer ours: lost with the turn, merged into another one's, or passed on because the Bot stops
 * - `dropped`: gone for good, and told so
 */
export type TurnState =
  | 'waiting'
  | 'opening'
  | 'gathering'
  | 'handling'
  | 'interrupted'
  | 'settling'
  | 'starving'
  | 'failing'
  | 'cancelling'
  | 'requeueing'
  | 'done'
  | 'cancelled'
  | 'returned'
  | 'left'
  | 'dropped';

const NEXT: Record<TurnState, readonly TurnState[]> = {
  waiting: ['opening', 'left', 'requeueing'],
  opening: ['gathering', 'handling', 'starving', 'failing', 'cancelling', 'left'],
  gathering: ['handling', 'cancelled', 'left', 'failing', 'cancelling'],
  handling: ['settling', 'interrupted', 'failing', 'cancelling'],
  interrupted: ['opening', 'failing', 'cancelling'],
  settling: ['done', 'starving', 'failing', 'cancelling'],
  starving: ['opening', 'settling', 'failing', 'cancelling', 'left'],
  failing: ['opening', 'returned', 'left', 'requeueing', 'dropped', 'cancelling'],
  cancelling: ['cancelled', 'left', 'requeueing'],
  requeueing: ['waiting', 'left', 'dropped'],
  done: [],
  cancelled: [],
  returned: [],
  left: [],
  dropped: [],
};

const REQUEUE_DELAY_MS = 1_000;
/** How long one holds a message that it cannot read and did not take in itself: no two old replicas play ball with it. */
const NEWER_DELAY_MS = 2_000;
const LONGEST_ERROR = 500;
/** From then on a message is tried alone, so that one that always fails takes no other along. */
const ATTEMPTS_TOGETHER = 2;
const NOBODY: readonly Behind[] = [];
const NOTHING: readonly Message[] = [];

/** Waiting for the state store. */
interface Hunger {
  readonly call: StateCall;
  readonly sinceMs: number;
  /** How often it has failed. */
  readonly tries: number;
}

/** Carries one message from its place to its end. */
export class MessageTurn implements Way, Hearer, Guest {
  readonly provider: Provider;
  readonly clock: Clock;
  /** Names the message in the chat's state, in every attempt the same. */
  readonly mark: number;
  readonly #setup: TurnSetup;
  #work: Work;
  #state: TurnState = 'waiting';
  #turn: MailTurn | undefined;
  #message: Message | undefined;
  #session: Session | undefined;
  /** Those behind this message that are handled together with it. */
  #also: readonly Behind[] = NOBODY;
  #attempt: Attempt | undefined;
  #run: Run | undefined;
  #error: unknown;
  /** Whether it was the save that failed. */
  #isUnsaved = false;
  /** The wait for the state store. Undefined unless it is away. */
  #hunger: Hunger | undefined;
  /** Why it is to end before its time. */
  #wish: CancelledError | SupersededByNewerError | undefined;
  #wasInterrupted = false;
  /** Ends a pause when a wish comes. */
  #awake: AbortController | undefined;
  /** Lets the next one of this process into the chat. */
  #leaveChat: (() => void) | undefined;
  /** Whether it counts among what its account is needed for. */
  #isCounted = false;
  /** Let go, and the store has not said that it ended: one that lost its data never will. */
  #isUntold = false;
  /** What came for the handlers before they ran. */
  #steers: unknown[] | undefined;

  constructor(setup: TurnSetup, work: Work) {
    this.provider = setup.provider;
    this.clock = setup.clock;
    this.mark = work.ticket.seq;
    this.#setup = setup;
    this.#work = work;
    setup.load.waiting++;
  }

  get replyName(): string {
    const { chat, id } = this.#message!;
    const newest = this.#also.at(-1);
    const name = `${chat}:${id ?? this.mark}`;
    // Of other messages the replies are others.
    return newest === undefined ? name : `${name}+${newest.message.id ?? newest.seq}`;
  }

  get isLocal(): boolean {
    return this.#setup.isLocal;
  }

  get pacer(): Pacer | undefined {
    return this.#setup.pacer;
  }

  get prior(): readonly SendRecord[] | undefined {
    // What an interrupted run sent was for other messages.
    return this.#wasInterrupted ? undefined : this.#session?.sentBy(this.mark);
  }

  get isRecorded(): boolean {
    return this.#setup.unknownSends !== undefined;
  }

  get unknownSends(): UnknownSends {
    return this.#setup.unknownSends ?? 'resend';
  }

  unknown(_reply: Reply, did: 'resent' | 'dropped'): void {
    this.#setup.unknownSend(this.#work.ticket.key, this.#own(), did);
  }

  record(log: readonly SendRecord[]): Promise<void> {
    return this.#setup.outages.save.outlast(() => this.#record(log), this.#attempt!.signal);
  }

  async #record(log: readonly SendRecord[]): Promise<void> {
    const session = this.#session!;
    session.touch();
    const also = this.#also.length === 0 ? {} : { also: seqsOf(this.#also) };
    await session.record(this.#setup.store, this.#message!.chat, this.#turn!.fence, { of: this.mark, ...also, log });
  }

  /** Resolves when the message has ended here. Never rejects. */
  async run(): Promise<void> {
    for (;;) {
      try {
        switch (this.#state) {
          case 'waiting':
            // Taken in while the Bot stopped.
            if (this.#isOver()) this.#setup.mail?.passWaiting();
            // One of a coordinator without a mailroom is told no more than `retry`.
            this.#turn = (await this.#setup.coordinator.acquireTurn(this.#work.ticket)) as MailTurn;
            if (this.#setup.gate !== undefined && !this.#isOver())
              await this.#enterAccount(this.#turn, this.#setup.gate);
            this.#to(this.#isOver() || this.#isAway() ? await this.#pass(this.#turn) : this.#listen(this.#turn));
            break;
          case 'opening':
            this.#attempt = undefined;
            if (this.#setup.oneByOne !== undefined) await this.#enter(this.#turn!, this.#setup.oneByOne);
            this.#message = read(this.#work);
            this.#session = new Session(await this.#load(this.#message.chat));
            this.#isFed('load');
            if (this.#isAway()) this.#to(await this.#pass(this.#turn!));
            else this.#to(this.#mustLook(this.#message, this.#session) ? 'gathering' : this.#begin());
            break;
          case 'gathering':
            this.#to(await this.#gather(this.#turn!, this.#message!, this.#session!));
            break;
          case 'handling':
            // Unless an earlier attempt got as far as saving: its replies are out, and it may not act on its own result.
            if (this.#session!.savedBy !== this.mark) await this.#handle(this.#attempt!);
            this.#to(this.#wish === undefined ? 'settling' : endOf(this.#wish));
            break;
          case 'interrupted':
            await this.#leave();
            this.#to(this.#reopen());
            break;
          case 'settling':
            if (this.#setup.maxTurnMs === undefined) await this.#settle(this.#attempt!);
            else await this.#timed(() => this.#settle(this.#attempt!));
            this.#to('done');
            break;
          case 'starving':
            this.#to(await this.#starve(this.#turn!, this.#hunger!));
            break;
          case 'failing':
            this.#to(await this.#fail(this.#turn!));
            break;
          case 'cancelling':
            await this.#leave();
            this.#to(await this.#cancel(this.#turn!));
            break;
          case 'requeueing':
            this.#to(await this.#requeue());
            break;
          case 'done':
          case 'cancelled':
          case 'returned':
          case 'left':
          case 'dropped':
            return;
          default:
            this.#state satisfies never;
        }
      } catch (error) {
        this.#error = error;
        this.#to(await this.#afterError(error));
      }
    }
  }

  /** What another replica, or this one, tells the turn while it runs. */
  hear(text: string): void {
    const note = readNote(text);
    switch (note?.t) {
      case 'cancel':
        this.#ask(new CancelledError(note.reason));
        break;
      case 'steer':
        if (this.#attempt !== undefined) this.#attempt.steering.tell(note.payload);
        else this.#steers = [...(this.#steers ?? []), note.payload];
        break;
      case 'newer':
        if (this.#state === 'gathering') this.#awake?.abort();
        else void this.#lookForNewer();
        break;
      case undefined:
        break;
    }
  }

  steerFailed(error: unknown): void {
    this.#setup.steerFailed(error, this.#attempt, this.#work);
  }

  /** The handlers go on well. */
  progress(note: string): void {
    if (this.#state !== 'handling') return;
    this.#run?.extend();
    this.#setup.progressed({ chat: this.#message!.chat, id: this.#message!.id, seq: this.mark, note });
  }

  async transact<T>(act: (sql: unknown) => Promise<T>, ready: () => Promise<void>): Promise<T> {
    if (this.#setup.isLocal) {
      throw new CoordinationUnavailableError('unavailable', 'ctx.transaction(): the backend is away.');
    }
    const store = this.#setup.store as Partial<TransactionalStateStore>;
    if (store.transaction === undefined || this.#setup.mail === undefined) {
      throw new ConfigError(
        'ctx.transaction(): the state of this bot is not in a database beside its turns. Use a coordinator and a state store that can: PostgresCoordinator and PostgresStateStore of @botmesh/postgres, on one database.',
      );
    }
    const turn = this.#turn!;
    const session = this.#session!;
    const { chat } = this.#message!;
    turn.assertHeld();
    let landed = (): void => {};
    const result = await (store as TransactionalStateStore).transaction({
      turn: { key: turn.key, seq: this.mark, fence: turn.fence },
      run: act,
      saved: async () => {
        await ready();
        turn.assertHeld();
        const draft = session.draft(this.mark, seqsOf(this.#also));
        landed = draft.landed;
        return { key: chat, value: draft.value };
      },
    });
    landed();
    return result;
  }

  /** The only place where the state changes. */
  #to(next: TurnState): void {
    if (!NEXT[this.#state].includes(next)) throw new Error(`a message turn went from ${this.#state} to ${next}`);
    const { load } = this.#setup;
    const wasRunning = isRunning(this.#state);
    if (this.#hunger !== undefined && !mayEat(next)) {
      this.#setup.outages[this.#hunger.call].gaveUp();
      this.#hunger = undefined;
    }
    if (this.#state === 'handling') this.#run?.end();
    if (this.#state === 'waiting' || this.#state === 'requeueing') load.waiting--;
    if (next === 'waiting' || next === 'requeueing') load.waiting++;
    this.#state = next;
    if (isRunning(next) !== wasRunning) {
      load.running += wasRunning ? -1 : 1;
      if (wasRunning) this.#hush();
    }
    load.changed();
    const { forgotten } = this.#setup;
    if (forgotten === undefined) return;
    const isOver = next === 'done' || next === 'cancelled';
    if (next === 'left' || next === 'returned' || (isOver && this.#isUntold)) forgotten.left(this.#work);
    else if (isOver) forgotten.ended(this.#work);
  }

  /** Nothing can be told to it any more, and it keeps no other turn of this process out. */
  #hush(): void {
    const { running } = this.#setup;
    const { key } = this.#work.ticket;
    this.#leaveAccount();
    if (running.get(key) === this) running.delete(key);
    this.#leaveChat?.();
    this.#leaveChat = undefined;
  }

  // ── Coming to its turn ─────────────────────────────────────────────────────────────────────────────────────────────

  /** Not begun, or not to be begun here: another replica takes it, and no attempt is counted. */
  async #pass(turn: MailTurn): Promise<TurnState> {
    this.#leaveAccount();
    if (this.#setup.mail !== undefined) await turn.release({ pass: true });
    return 'left';
  }

  #listen(turn: MailTurn): TurnState {
    const { mail, running } = this.#setup;
    if (mail === undefined) running.set(turn.key, this);
    else mail.onTold(turn, (note) => this.hear(note));
    return 'opening';
  }

  async #enterAccount({ key, signal }: MailTurn, gate: AccountGate): Promise<void> {
    this.#isCounted = await gate.enter(key, signal, this);
  }

  #leaveAccount(): void {
    if (this.#isCounted) this.#setup.gate?.leave(this.#work.ticket.key, this);
    this.#isCounted = false;
  }

  /** What runs is told by its signal, and sends nothing more. The message goes to where its account is. */
  accountLost(error: Error): void {
    this.#attempt?.abort(error);
  }

  /** Whether another replica has the account of the chat. */
  #isAway(): boolean {
    const { gate, passesOn } = this.#setup;
    if (gate === undefined || !passesOn) return false;
    return !this.#isCounted || !gate.isHere(this.#work.ticket.key);
  }

  async #enter({ key, signal }: MailTurn, oneByOne: OneByOne): Promise<void> {
    this.#leaveChat ??= await oneByOne.enter(key, signal);
  }

  #load(chat: string): StoredState | null | Promise<StoredState | null> {
    const { maxTurnMs, store } = this.#setup;
    return maxTurnMs === undefined ? store.load(chat) : this.#timed(() => store.load(chat));
  }

  /** Whether what waits behind this message may change what is done with it. */
  #mustLook(message: Message, session: Session): boolean {
    const { mail, rules } = this.#setup;
    if (mail === undefined) return false;
    if (this.#wasInterrupted || (session.boundBy(this.mark)?.length ?? 0) > 0) return true;
    if (rules.areSerial) return false;
    const { mode } = ruleOf(rules, message);
    if (mode === 'collect') return true;
    // Nothing can wait behind a message that was granted as it came; what comes later tells of itself.
    return (mode === 'latest' || rules.interrupt) && this.#work.wasFree !== true;
  }

  async #gather(turn: MailTurn, message: Message, session: Session): Promise<TurnState> {
    const rule = ruleOf(this.#setup.rules, message);
    const bound = session.boundBy(this.mark);
    // A retry may not mix what an earlier attempt has replied to with what it never saw.
    // Nor may what was handled, and is on record as that, take along what came later.
    if (bound !== undefined && (!this.#wasInterrupted || session.savedBy === this.mark)) {
      const behind = await this.#look(turn);
      this.#also = behind.filter(({ seq }) => bound.includes(seq));
      return this.#begin();
    }
    const isAlone = this.#work.attempt > ATTEMPTS_TOGETHER && !this.#wasInterrupted;
    const isCollecting = rule.mode === 'collect' && !this.#wasInterrupted && !isAlone;
    const behind = isCollecting ? await this.#collect(turn, rule) : await this.#look(turn);
    if (this.#wish !== undefined) return 'cancelling';
    if (this.#isOver() && !this.#wasInterrupted) return this.#pass(turn);
    const { do: what, more } = plan(rule.mode, modesOf(behind));
    if (what === 'yield') return this.#yield(turn, behind.slice(0, more), behind[more]!);
    this.#also = isAlone ? NOBODY : behind.slice(0, more);
    return this.#begin();
  }

  /** Whether it is another replica's to begin. */
  #isOver(): boolean {
    return this.#setup.stopping.aborted && this.#setup.passesOn;
  }

  /** Nothing, when the backend is away: those that wait have their own turns. */
  #look(turn: MailTurn): Promise<readonly Behind[]> {
    const { mail, rules } = this.#setup;
    return mail === undefined ? Promise.resolve(NOBODY) : lookBehind(mail, turn, rules).catch(() => NOBODY);
  }

  /** What waits once nothing new has come for a while. */
  async #collect(turn: MailTurn, rule: Rule): Promise<readonly Behind[]> {
    const { clock } = this;
    const grantedMs = clock.monotonicMs();
    let newestMs = grantedMs;
    let behind: readonly Behind[] = NOBODY;
    for (;;) {
      const waitMs = isClosed(modesOf(behind)) ? 0 : collectWaitMs(rule, grantedMs, newestMs, clock.monotonicMs());
      if (waitMs === 0 || this.#wish !== undefined || this.#isOver() || turn.signal.aborted) return behind;
      await this.#pause(waitMs);
      const found = await this.#look(turn);
      if (found.length > behind.length) newestMs = clock.monotonicMs();
      behind = found;
    }
  }

  /** The newest of its kind stands for those before it. */
  async #yield(turn: MailTurn, between: readonly Behind[], newest: Behind): Promise<TurnState> {
    turn.assertHeld();
    const by = nameOf(newest);
    await this.#letGo(turn, between, (isAll, isUnsure) => {
      this.#tellEnd(this.#own(), 'cancelled', { by, isUnsure });
      if (isAll) for (const each of between) this.#tellEnd(nameOf(each), 'cancelled', { by, isUnsure });
    });
    return 'cancelled';
  }

  #begin(): TurnState {
    if (this.#wish instanceof CancelledError) return 'cancelling';
    const turn = this.#turn!;
    const newest = this.#also.at(-1)?.message ?? this.#message!;
    turn.assertHeld();
    this.#attempt = new Attempt(
      newest,
      olderOf(this.#message!, this.#also),
      turn,
      this.#work.attempt,
      this.#session!,
      this,
    );
    for (const payload of this.#steers ?? []) this.#attempt.steering.tell(payload);
    this.#steers = undefined;
    return 'handling';
  }

  // ── Running ────────────────────────────────────────────────────────────────────────────────────────────────────────

  #handle(attempt: Attempt): unknown {
    const run = new Run(this.clock);
    this.#run = run;
    if (this.#setup.maxTurnMs === undefined) return run.join(this.#setup.handle(attempt));
    const limit = this.#limit((error) => attempt.abort(error));
    return run.of(() => this.#setup.handle(attempt), limit);
  }

  /** What `act` gives; a TurnLimitError when it takes longer than a turn may. What it waits for may then never come. */
  #limited<T>(act: () => T): T | Promise<Awaited<T>> {
    return this.#setup.maxTurnMs === undefined ? act() : this.#timed(act);
  }

  async #timed<T>(act: () => T): Promise<Awaited<T>> {
    const run = new Run(this.clock);
    try {
      return await run.of(act, this.#limit());
    } finally {
      run.end();
    }
  }

  #limit(onLimit?: (error: Error) => void): RunLimit | undefined {
    const { maxTurnMs, maxProgressMs } = this.#setup;
    if (maxTurnMs === undefined) return undefined;
    return {
      limitMs: maxTurnMs,
      boundMs: maxProgressMs,
      onLimit: () => {
        const error = new TurnLimitError(maxTurnMs);
        onLimit?.(error);
        return error;
      },
    };
  }

  /** Asks the turn to end before its time. What has been saved is handled, and stays so. */
  #ask(wish: CancelledError | SupersededByNewerError): void {
    if (this.#wish instanceof CancelledError || this.#state === 'cancelling' || !isRunning(this.#state)) return;
    this.#wish = wish;
    this.#attempt?.abort(wish, wish);
    this.#run?.endWithin(this.#setup.graceMs, wish);
    this.#awake?.abort();
  }

  async #lookForNewer(): Promise<void> {
    const attempt = this.#attempt;
    if (this.#state !== 'handling') return;
    const behind = await this.#look(this.#turn!);
    if (this.#state !== 'handling' || this.#attempt !== attempt) return;
    if (interrupting(modesOf(behind), this.#also.length) > 0) this.#ask(new SupersededByNewerError());
  }

  /** What had begun to leave may do so, for a while. */
  async #leave(): Promise<void> {
    this.#attempt?.close();
    const leaving = this.#attempt?.flush()?.catch(() => {});
    if (leaving === undefined) return;
    const over = new AbortController();
    await Promise.race([leaving, pause(this.clock, this.#setup.graceMs, over.signal)]);
    over.abort();
  }

  #reopen(): TurnState {
    if (this.#wish instanceof CancelledError) return 'cancelling';
    this.#wish = undefined;
    this.#wasInterrupted = true;
    return 'opening';
  }

  async #pause(delayMs: number): Promise<void> {
    this.#awake = new AbortController();
    await pause(this.clock, delayMs, this.#setup.stopping, this.#turn!.signal, this.#awake.signal);
    this.#awake = undefined;
  }

  // ── Ending ─────────────────────────────────────────────────────────────────────────────────────────────────────────

  // These four are no async functions: what is not needed is not waited for, and most messages need only the release.

  #settle(attempt: Attempt): Promise<void> {
    const { transacting } = attempt;
    return transacting === undefined ? this.#flush(attempt) : transacting.then(() => this.#flush(attempt));
  }

  #flush(attempt: Attempt): Promise<void> {
    const flushed = attempt.flush();
    return flushed === undefined ? this.#save(attempt) : flushed.then(() => this.#save(attempt));
  }

  #save(attempt: Attempt): Promise<void> {
    const { turn, session, message } = attempt;
    if (this.#wish !== undefined) return Promise.reject(this.#wish);
    turn.assertHeld();
    this.#isUnsaved = false;
    const saved = session.save(this.#setup.store, message.chat, turn.fence, this.mark, seqsOf(this.#also));
    if (saved === undefined) return this.#end(attempt);
    return saved.then(
      () => {
        this.#isFed('save');
        return this.#end(attempt);
      },
      (error: unknown) => {
        this.#isUnsaved = true;
        throw error;
      },
    );
  }

  #end(attempt: Attempt): Promise<void> {
    attempt.close();
    const turn = this.#turn!;
    // Most bots listen to nothing: what is told to nobody needs no word from the store.
    if (this.#also.length === 0 && !this.#setup.hearsEnds()) return turn.release();
    return this.#letGo(turn, this.#also, (isAll, isUnsure) => this.#tellHandled(isAll, isUnsure));
  }

  /**
   * Marks the message done, and `also` in the same step. `tell` runs once the store has confirmed that: a replica that was
   * counted as dead before ended nothing, and may not say so. That may be after this has resolved. Where no answer will ever
   * come it is told as unsure.
   */
  #letGo(turn: MailTurn, also: readonly Behind[], tell: (isAll: boolean, isUnsure?: boolean) => void): Promise<void> {
    // One without a mailroom confirms nothing.
    if (this.#setup.mail === undefined) return turn.release().then(() => tell(true));
    this.#isUntold = true;
    const onLanded = (isAll: boolean, isUnsure?: boolean): void => {
      this.#isUntold = false;
      this.#setup.forgotten?.ended(this.#work);
      tell(isAll, isUnsure);
    };
    return turn.release(also.length === 0 ? { onLanded } : { also: seqsOf(also), onLanded });
  }

  async #cancel(turn: MailTurn): Promise<TurnState> {
    const { isDurable } = this.#setup;
    // The mesh has it, and gives it to somebody who was not told.
    if (!isHeld(turn) && isDurable) return 'left';
    const reason = this.#wish instanceof CancelledError ? this.#wish.reason : undefined;
    const also = this.#also;
    await this.#letGo(turn, also, (isAll, isUnsure) => {
      this.#tellEnd(this.#own(), 'cancelled', { reason, isUnsure });
      if (isAll) for (const each of also) this.#tellEnd(nameOf(each), 'cancelled', { reason, isUnsure });
    });
    return 'cancelled';
  }

  async #afterError(error: unknown): Promise<TurnState> {
    switch (this.#state) {
      case 'waiting':
        return this.#refused(error);
      case 'settling':
        if (this.#wish === undefined && this.#isUnsaved && isAway(error)) return this.#hungerFor('save', error);
        return this.#wish === undefined ? 'failing' : endOf(this.#wish);
      case 'handling':
        return this.#wish === undefined ? 'failing' : endOf(this.#wish);
      case 'opening':
        return isAway(error) ? this.#hungerFor('load', error) : 'failing';
      case 'gathering':
      case 'starving':
      case 'interrupted':
        return 'failing';
      default:
        // A coordinator that breaks its word: the lease ends what is still held.
        return 'left';
    }
  }

  /** The state store is away. What it did not do is asked for again as long as the turn is held, with no attempt counted. */
  #hungerFor(call: StateCall, error: unknown): TurnState {
    const { sinceMs, tries } = this.#hunger ?? { sinceMs: this.clock.monotonicMs(), tries: 0 };
    this.#isUnsaved = false;
    this.#hunger = { call, sinceMs, tries: tries + 1 };
    this.#setup.outages[call].failed(tries + 1, error);
    return 'starving';
  }

  #isFed(call: StateCall): void {
    const outage = this.#setup.outages[call];
    if (!outage.isAway) return;
    outage.worked(this.#hunger !== undefined);
    this.#hunger = undefined;
  }

  async #starve(turn: MailTurn, { call, sinceMs, tries }: Hunger): Promise<TurnState> {
    const { maxTurnMs, stopping } = this.#setup;
    const untilMs = maxTurnMs === undefined ? Number.POSITIVE_INFINITY : sinceMs + maxTurnMs;
    const waitMs = Math.min(untilMs - this.clock.monotonicMs(), delayMs(this.clock, tries));
    this.#awake = new AbortController();
    const ends = [turn.signal, this.#awake.signal];
    // What has not begun is another replica's when this one stops; what has run may still be saved.
    if (call === 'load') ends.push(stopping);
    await pause(this.clock, waitMs, ...ends);
    this.#awake = undefined;
    if (this.#wish !== undefined) return 'cancelling';
    if (!isHeld(turn)) return 'failing';
    if (call === 'load' && this.#isOver()) return this.#pass(turn);
    if (this.clock.monotonicMs() < untilMs) return call === 'load' ? 'opening' : 'settling';
    this.#error = new TurnLimitError(maxTurnMs!);
    return 'failing';
  }

  /** The turn was not granted. With a durable coordinator the mesh has the message: it comes again, here or elsewhere. */
  async #refused(error: unknown): Promise<TurnState> {
    if (!isExpected(error)) await this.#setup.failed(error, undefined, this.#work);
    return this.#setup.isDurable ? 'left' : 'requeueing';
  }

  /** Decides by the turn, not by the error: a handler whose turn was lost may throw anything. */
  async #fail(turn: MailTurn): Promise<TurnState> {
    const { isDurable, maxAttempts, stopping } = this.#setup;
    if (this.#isNewer) this.#setup.metNewer();
    // Its account went elsewhere meanwhile, or its time went by without the state store: no fault of the message's.
    const isElsewhere = this.#isAway() || this.#isStarved;
    if (isHeld(turn) && !isElsewhere) await this.#tell(turn);
    if (this.#wish instanceof CancelledError) return 'cancelling';
    this.#attempt?.close();
    if (!isHeld(turn)) return isDurable ? 'left' : 'requeueing';
    // Tried here again it would fail again, and be parked for no fault of its own.
    if (this.#isNewer || isElsewhere) return this.#pass(turn);
    if (this.#error instanceof StaleFenceError || isDurable) {
      await turn.release({ retry: true, error: textOf(this.#error) });
      return isDurable ? 'returned' : 'requeueing';
    }
    if (this.#work.attempt < maxAttempts && !stopping.aborted) {
      this.#work = { ...this.#work, attempt: this.#work.attempt + 1 };
      return 'opening';
    }
    await turn.release();
    this.#drop(`it failed ${this.#work.attempt} times`);
    return 'dropped';
  }

  /** Whether another replica may know what this one cannot read. */
  get #isNewer(): boolean {
    return this.#error instanceof NewerVersionError && this.#setup.mail !== undefined && this.#setup.passesOn;
  }

  /** Whether its time went by while the state store was away: somebody else may try. */
  get #isStarved(): boolean {
    const { mail, outages, passesOn } = this.#setup;
    if (!(this.#error instanceof TurnLimitError) || mail === undefined || !passesOn) return false;
    return outages.load.isAway || outages.save.isAway;
  }

  get #newerDelayMs(): number {
    return typeof this.#work.content === 'string' ? NEWER_DELAY_MS : 0;
  }

  /** The hooks, the replies they send, and the time before the next attempt. */
  async #tell(turn: MailTurn): Promise<void> {
    // A hook or a send that hangs may not hold the chat for longer than a handler may.
    await Promise.resolve(this.#limited(() => this.#report())).catch(() => {});
    const delayMs = this.#isNewer ? this.#newerDelayMs : this.#setup.retryDelayMs(this.#work.attempt);
    if (delayMs > 0 && this.#wish === undefined && !turn.signal.aborted) await this.#pause(delayMs);
  }

  async #report(): Promise<void> {
    const attempt = this.#attempt;
    await attempt?.flush()?.catch(() => {});
    const sends = attempt?.sends ?? [];
    attempt?.beginHooks();
    // The next attempt sends no more what this one has sent. If that cannot be recorded, it is sent again.
    if (sends.some(([state]) => state !== 'failed')) await this.#record(sends).catch(() => {});
    await this.#setup.failed(this.#error, attempt, this.#work);
    await attempt?.flush()?.catch(() => {});
  }

  async #requeue(): Promise<TurnState> {
    const { coordinator, stopping } = this.#setup;
    while (!stopping.aborted) {
      try {
        const ticket = await coordinator.reserve(this.#work.ticket.key);
        this.#work = { ...this.#work, ticket, attempt: this.#work.attempt + (this.#turn === undefined ? 0 : 1) };
        this.#turn = undefined;
        return 'waiting';
      } catch {
        await pause(this.clock, REQUEUE_DELAY_MS, stopping);
      }
    }
    this.#drop('the bot stopped, and its coordinator does not keep messages');
    return 'dropped';
  }

  #drop(why: string): void {
    this.#setup.dropped(this.#work, why);
    this.#tellEnd(this.#own(), 'dropped', { reason: why });
  }

  // ── Telling ────────────────────────────────────────────────────────────────────────────────────────────────────────

  #tellHandled(isAll: boolean, isUnsure: boolean | undefined): void {
    const newest = this.#also.at(-1);
    // Those behind that did not end with it come to their own turns.
    if (newest === undefined || !isAll) {
      this.#tellEnd(this.#own(), 'handled', isUnsure === true ? { isUnsure } : undefined);
      return;
    }
    const by = nameOf(newest);
    this.#tellEnd(this.#own(), 'merged', { by, isUnsure });
    for (const each of this.#also.slice(0, -1)) this.#tellEnd(nameOf(each), 'merged', { by, isUnsure });
    this.#tellEnd(by, 'handled', { isUnsure });
  }

  #tellEnd(of: Named, how: How, more?: EndDetail): void {
    this.#setup.ended(this.#work.ticket.key, of, how, more);
  }

  #own(): Named {
    return { seq: this.mark, id: this.#work.id };
  }
}

function read({ content }: Work): Message {
  return typeof content === 'string' ? decode(content) : content;
}

/** Of messages that are handled together, all but the newest. */
function olderOf(head: Message, also: readonly Behind[]): readonly Message[] {
  return also.length === 0 ? NOTHING : [head, ...also.slice(0, -1).map(({ message }) => message)];
}

function seqsOf(also: readonly Behind[]): number[] {
  return also.map(({ seq }) => seq);
}

function nameOf({ seq, message }: Behind): Named {
  return { seq, id: message.id };
}

function endOf(wish: CancelledError | SupersededByNewerError): TurnState {
  return wish instanceof CancelledError ? 'cancelling' : 'interrupted';
}

/** Whether what the state store did not do is still asked for. */
function mayEat(state: TurnState): boolean {
  return state === 'starving' || state === 'opening' || state === 'settling';
}

function isRunning(state: TurnState): boolean {
  switch (state) {
    case 'opening':
    case 'gathering':
    case 'handling':
    case 'interrupted':
    case 'settling':
    case 'starving':
    case 'failing':
    case 'cancelling':
      return true;
    default:
      return false;
  }
}

/** Anything may be thrown, also what cannot be turned into text. */
function textOf(error: unknown): string {
  try {
    return String(error).slice(0, LONGEST_ERROR);
  } catch {
    return `a value of type ${typeof error} that cannot be shown`;
  }
}

/** How the wait for a turn ends when the mesh, not this code, decides so. */
function isExpected(error: unknown): boolean {
  return (
    error instanceof LeaseLostError || error instanceof CoordinationUnavailableError || error instanceof LifecycleError
  );
}

function isHeld(turn: MailTurn): boolean {
  try {
    turn.assertHeld();
    return true;
  } catch (error) {
    if (error instanceof LeaseLostError) return false;
    throw error;
  }
}
