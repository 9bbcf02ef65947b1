import {
  type ApplyAnswer,
  type ApplyRequest,
  type BeatAnswer,
  type BeatRequest,
  type JoinAnswer,
  type JoinRequest,
  type LeaveRequest,
  type Moment,
  type Outgoing,
  type PaceAnswer,
  type PaceRequest,
  type Push,
  type Store,
  type StoreView,
  transitions,
  type Waiting as WaitingMessage,
  type WaitingRequest,
} from '@botmesh/core/spi';
import type { DriverName } from './driver.js';
import { isCurrent, type OpenFile, openFile, whileBusy } from './file.js';
import { view } from './inspect.js';
import { Presence } from './Presence.js';
import { bootId, hasEnded, ownIdentity, type ProcessIdentity } from './processes.js';
import { SqliteLedger } from './SqliteLedger.js';
import { fromColumn } from './text.js';
import { Waiting } from './Waiting.js';
import { SocketWire, type Wire } from './Wire.js';

export interface SqliteStoreOptions {
  readonly path: string;
  readonly driver?: DriverName | undefined;
  /** What the two clocks say; for tests. Default: the host's monotonic clock, and its wall clock. */
  readonly time?: (() => HostTime) | undefined;
  /** How pushes go; for tests. Default: Unix sockets. */
  readonly makeWire?: (() => Wire) | undefined;
}

/** `nowMs` judges leases, and starts anew with the host; `wallMs` gives stamps, and does not. */
export interface HostTime {
  readonly nowMs: number;
  readonly wallMs: number;
}

/** Whoever listens here for the pushes of one instance. */
interface Subscriber {
  readonly listener: (push: Push) => void;
  readonly waiting: Waiting;
  readonly wire: Wire;
}

type Run<Answer> = (ledger: SqliteLedger, moment: Moment, pushes: Outgoing[]) => Answer;

/** The protocol's steps on one SQLite file: each is the reference transition, run over the tables in one transaction. */
export class SqliteStore implements Store {
  readonly #path: string;
  readonly #driver: DriverName | undefined;
  readonly #time: () => HostTime;
  readonly #makeWire: () => Wire;
  readonly #own: ProcessIdentity = ownIdentity();
  readonly #boot = bootId();
  readonly #presence: Presence;
  readonly #subscribers = new Map<string, Subscriber>();
  /** Only sends. */
  readonly #wire: Wire;
  #opening: Promise<OpenFile> | undefined;
  #file: OpenFile | undefined;

  constructor(options: SqliteStoreOptions) {
    this.#path = options.path;
    this.#driver = options.driver;
    this.#time = options.time ?? hostTime;
    this.#presence = new Presence(this.#path, this.#own);
    this.#makeWire = options.makeWire ?? (() => new SocketWire((instance) => this.#presence.socketOf(instance)));
    this.#wire = this.#makeWire();
  }

  async join(request: JoinRequest): Promise<JoinAnswer> {
    const { instance } = request;
    const answer = await this.#step((ledger, moment, pushes) => transitions.join(ledger, request, moment, pushes));
    if (answer.kind !== 'joined') return answer;
    this.#presence.note(instance);
    this.#subscribers.get(instance)?.waiting.begin(answer.epoch, answer.era);
    return answer;
  }

  async apply(request: ApplyRequest): Promise<ApplyAnswer> {
    const { instance } = request;
    const answer = await this.#step((ledger, moment, pushes) => transitions.apply(ledger, request, moment, pushes));
    this.#subscribers.get(instance)?.waiting.afterApply(request, answer);
    return answer;
  }

  async beat(request: BeatRequest): Promise<BeatAnswer> {
    const { instance } = request;
    const answer = await this.#step((ledger, moment, pushes) => {
      this.#buryEndedIn(ledger, moment, pushes);
      return transitions.beat(ledger, request, moment, pushes);
    });
    this.#subscribers.get(instance)?.waiting.afterBeat(request, answer);
    this.#checkpoint(request.epoch);
    return answer;
  }

  async leave(request: LeaveRequest): Promise<void> {
    await this.#step((ledger, moment, pushes) => transitions.leave(ledger, request, moment, pushes));
    this.#presence.forgetSeat(request.instance);
  }

  async waiting(request: WaitingRequest): Promise<readonly WaitingMessage[]> {
    const { sql } = await this.#openCurrent();
    // One transaction, so that the head and what is behind it are of one moment. It reads: nobody waits for it.
    sql.run('BEGIN');
    try {
      return transitions.waiting(new SqliteLedger(sql, ''), request);
    } finally {
      sql.run('COMMIT');
    }
  }

  pace(request: PaceRequest): Promise<PaceAnswer> {
    return this.#step((ledger, moment) => transitions.pace(ledger, request, moment));
  }

  async subscribe(instance: string, listener: (push: Push) => void): Promise<() => Promise<void>> {
    this.#presence.make();
    this.#unsubscribe(instance);
    const wire = this.#makeWire();
    await wire.listen(instance, (push) => this.#hear(instance, push));
    const subscriber = { listener, wire, waiting: this.#makeWaiting(instance) };
    this.#subscribers.set(instance, subscriber);
    return async () => {
      if (this.#subscribers.get(instance) === subscriber) this.#unsubscribe(instance);
    };
  }

  async inspect(): Promise<StoreView> {
    const { sql } = await this.#openCurrent();
    return view(sql, this.#time().nowMs);
  }

  async close(): Promise<void> {
    for (const instance of [...this.#subscribers.keys()]) this.#unsubscribe(instance);
    this.#wire.close();
    this.#drop();
  }

  #unsubscribe(instance: string): void {
    const subscriber = this.#subscribers.get(instance);
    if (subscriber === undefined) return;
    this.#subscribers.delete(instance);
    subscriber.waiting.end();
    subscriber.wire.close();
    this.#presence.forget(instance);
  }

  // ── Steps ──────────────────────────────────────────────────────────────────────────────────────────────────────────

  async #step<Answer>(run: Run<Answer>): Promise<Answer> {
    const file = await this.#openCurrent();
    try {
      return await whileBusy(this.#path, () => this.#transact(file, run));
    } catch (error) {
      if (this.#file === file) this.#drop();
      throw error;
    }
  }

  #transact<Answer>(file: OpenFile, run: Run<Answer>): Answer {
    const pushes: Outgoing[] = [];
    file.sql.run('BEGIN IMMEDIATE');
    let answer: Answer;
    try {
      // Again, now that nobody else writes: what is written to a file that is no longer there is lost.
      if (!isCurrent(this.#path, file)) throw new Error(`SQLite: ${this.#path} was removed or replaced.`);
      const ledger = new SqliteLedger(file.sql, JSON.stringify(this.#own));
      const moment = { ...this.#time(), run: `${this.#boot} ${file.identity}` };
      this.#noticeStart(ledger, moment, pushes);
      answer = run(ledger, moment, pushes);
      ledger.flush();
      file.sql.run('COMMIT');
    } catch (error) {
      rollBack(file);
      throw error;
    }
    for (const { instance: to, push } of pushes) this.#send(to, push);
    return answer;
  }

  /**
   * A new file, one put back, or one from before a reboot. If nobody is at work on this path, all that is written in it is
   * surely over, and there is nothing to wait out. Otherwise the step begins a new era, with its quarantine.
   */
  #noticeStart(ledger: SqliteLedger, moment: Moment, pushes: Outgoing[]): void {
    if (ledger.run === moment.run || this.#presence.hasAny()) return;
    ledger.run = moment.run;
    for (const { epoch } of ledger.live.values()) transitions.kill(ledger, epoch, moment, pushes);
  }

  /** The file that is at the path now: one that was removed, or put in its place, is another. */
  async #openCurrent(): Promise<OpenFile> {
    if (this.#file !== undefined && !isCurrent(this.#path, this.#file)) this.#drop();
    return this.#open();
  }

  async #open(): Promise<OpenFile> {
    if (this.#file !== undefined) return this.#file;
    this.#opening ??= openFile(this.#path, this.#driver);
    try {
      this.#file = await this.#opening;
      return this.#file;
    } finally {
      this.#opening = undefined;
    }
  }

  #drop(): void {
    this.#file?.database.close();
    this.#file = undefined;
  }

  // ── Pushes ─────────────────────────────────────────────────────────────────────────────────────────────────────────

  #send(instance: string, push: Push): void {
    if (this.#subscribers.has(instance)) this.#hear(instance, push);
    else this.#wire.send(instance, push);
  }

  #hear(instance: string, push: Push): void {
    const subscriber = this.#subscribers.get(instance);
    if (push.kind === 'grant') subscriber?.waiting.granted(push.seq);
    subscriber?.listener(push);
  }

  #makeWaiting(instance: string): Waiting {
    return new Waiting({
      look: (epoch, era, isWaiting) => this.#lookForGrants(instance, epoch, era, isWaiting),
      bury: () => this.#buryEnded(),
      version: () => this.#file?.sql.get('PRAGMA data_version')?.data_version,
    });
  }

  /** The safety net under the wire: grants that stand in the file. */
  #lookForGrants(instance: string, epoch: number, era: number, isWaiting: (seq: number) => boolean): void {
    const rows = this.#file?.sql.all(
      'SELECT key, seq, fence FROM entry WHERE owner = ? AND fence <> 0 AND era = ?',
      epoch,
      era,
    );
    for (const row of rows ?? []) {
      const seq = row.seq as number;
      if (!isWaiting(seq)) continue;
      this.#hear(instance, {
        kind: 'grant',
        epoch,
        era,
        key: fromColumn(row.key as string),
        seq,
        fence: row.fence as number,
      });
    }
  }

  // ── Processes that ended ───────────────────────────────────────────────────────────────────────────────────────────

  /** Looks whether a process with a seat has ended, and if so buries its replica. */
  async #buryEnded(): Promise<void> {
    const file = this.#file;
    if (file === undefined || ended(file, this.#own).length === 0) return;
    await this.#step((ledger, moment, pushes) => this.#buryEndedIn(ledger, moment, pushes));
  }

  #buryEndedIn(ledger: SqliteLedger, moment: Moment, pushes: Outgoing[]): void {
    for (const { epoch, instance } of this.#file === undefined ? [] : ended(this.#file, this.#own)) {
      transitions.kill(ledger, epoch, moment, pushes);
      this.#presence.forget(instance);
    }
  }

  /** The eldest alone writes the log back into the file. */
  #checkpoint(epoch: number): void {
    const eldest = this.#file?.sql.get('SELECT min(epoch) AS eldest FROM replica')?.eldest;
    this.#file?.database.exec(`PRAGMA wal_autocheckpoint = ${eldest === epoch ? 1000 : 0}`);
  }
}

/** The host's monotonic clock is common to all its processes. */
function hostTime(): HostTime {
  return { nowMs: Number(process.hrtime.bigint()) / 1e6, wallMs: Date.now() };
}

function ended({ sql }: OpenFile, own: ProcessIdentity): { epoch: number; instance: string }[] {
  return sql
    .all('SELECT epoch, instance, process FROM replica')
    .filter((row) => hasEnded(JSON.parse(row.process as string) as ProcessIdentity, own))
    .map((row) => ({ epoch: row.epoch as number, instance: row.instance as string }));
}

function rollBack(file: OpenFile): void {
  try {
    file.sql.run('ROLLBACK');
  } catch {
    // The library has done so itself, or the connection is beyond use: it is closed next.
  }
}
