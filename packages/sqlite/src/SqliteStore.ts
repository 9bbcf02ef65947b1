import {
  type ApplyAnswer,
  type ApplyRequest,
  type BeatAnswer,
  type BeatRequest,
  ConfigError,
  isClockSane,
  type JoinAnswer,
  type JoinRequest,
  type LeaveRequest,
  type Moment,
  type Outgoing,
  type PaceAnswer,
  type PaceRequest,
  type ParkedNotice,
  type Push,
  type Store,
  type StoreView,
  transitions,
  type Waiting as WaitingMessage,
  type WaitingRequest,
} from '@botmesh/core/spi';
import { CALM_MS, Connection } from './Connection.js';
import type { DriverName } from './driver.js';
import { explain } from './explain.js';
import { demandCurrent, type OpenFile } from './file.js';
import { view } from './inspect.js';
import { warnOfOldLibrary } from './library.js';
import { Presence } from './Presence.js';
import { bootId, hasEnded, ownIdentity, type ProcessIdentity } from './processes.js';
import { SqliteLedger } from './SqliteLedger.js';
import { rollBack } from './schema.js';
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
  /** Whether it looks into the file while somebody waits, in case a push is lost; for tests. Default: yes. */
  readonly looks?: boolean | undefined;
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

type Run<Answer> = (ledger: SqliteLedger, moment: Moment, pushes: Outgoing[], file: OpenFile) => Answer;

/** A step that waits longer for others fails, and says so. Shorter with short leases: their heartbeats wait less. */
const LONGEST_BUSY_MS = 1_000;

/** How long the log grows before it is written back into the file: some MB, in pages of the schema's size. */
const LOG_PAGES = 4_000;

/** The protocol's steps on one SQLite file: each is the reference transition, run over the tables in one transaction. */
export class SqliteStore implements Store {
  readonly #path: string;
  readonly #connection: Connection;
  readonly #time: () => HostTime;
  readonly #makeWire: () => Wire;
  readonly #own: ProcessIdentity = ownIdentity();
  /** Undefined until it could be read. */
  #boot: string | undefined;
  readonly #presence: Presence;
  readonly #subscribers = new Map<string, Subscriber>();
  /** Only sends. */
  readonly #wire: Wire;
  /** Instances that joined from here: somebody at work, also when the notes are gone with the file. */
  readonly #seated = new Set<string>();
  /** Why the last batch could not be written. */
  #refusal: Error | undefined;
  readonly #looks: boolean;
  /** What was parked by deaths that were noticed here, and that the next heartbeat from here tells of. */
  #untold: ParkedNotice[] = [];
  /** The same of the transaction under way, which may yet be rolled back. */
  #parkedNow: ParkedNotice[] = [];
  #isClosed = false;

  constructor(options: SqliteStoreOptions) {
    this.#path = options.path;
    // Whoever moves the clock does not wait.
    const calmMs = options.time === undefined ? CALM_MS : 0;
    this.#connection = new Connection({ path: options.path, driver: options.driver, calmMs });
    this.#time = options.time ?? hostTime;
    this.#presence = new Presence(this.#path, this.#own);
    this.#makeWire = options.makeWire ?? (() => new SocketWire((instance) => this.#presence.socketOf(instance)));
    this.#wire = this.#makeWire();
    this.#looks = options.looks ?? true;
  }

  async join(request: JoinRequest): Promise<JoinAnswer> {
    const { instance, config } = request;
    demandSaneClock(this.#time().wallMs);
    this.#connection.busyLimitMs = Math.min(LONGEST_BUSY_MS, config.leaseMs / 24);
    const answer = await this.#step((ledger, moment, pushes) => transitions.join(ledger, request, moment, pushes));
    if (answer.kind !== 'joined') return answer;
    this.#refusal = undefined;
    this.#seated.add(instance);
    this.#told(() => this.#presence.write(instance, true));
    void this.#presence.sweep();
    this.#subscribers.get(instance)?.waiting.begin(answer.epoch, answer.era);
    return answer;
  }

  async apply(request: ApplyRequest): Promise<ApplyAnswer> {
    const { instance } = request;
    const released = request.ops.filter((op) => op.op === 'release');
    const answer = await this.#stepOrRefuse((ledger, moment, pushes) => {
      ledger.expect(released);
      return transitions.apply(ledger, request, moment, pushes);
    });
    this.#subscribers.get(instance)?.waiting.afterApply(request, answer);
    return answer;
  }

  async beat(request: BeatRequest): Promise<BeatAnswer> {
    const { instance } = request;
    if (this.#refusal !== undefined) throw this.#refusal;
    const answer = await this.#step((ledger, moment, pushes, file) => {
      this.#buryEndedIn(file, ledger, moment, pushes);
      return transitions.beat(ledger, request, moment, pushes);
    });
    this.#subscribers.get(instance)?.waiting.afterBeat(request, answer);
    this.#checkpoint(request.epoch);
    // It may have been removed with everything else.
    if (!this.#presence.isNoted(instance)) this.#told(() => this.#presence.write(instance, this.#seated.has(instance)));
    return answer.kind === 'alive' ? transitions.telling(answer, this.#untold.splice(0)) : answer;
  }

  async leave(request: LeaveRequest): Promise<void> {
    try {
      await this.#step((ledger, moment, pushes) => transitions.leave(ledger, request, moment, pushes));
    } finally {
      // Of a join that was answered too late: nobody would close what this has opened.
      if (this.#isClosed) this.#connection.close();
    }
    this.#seated.delete(request.instance);
    this.#noteLeft(request.instance);
  }

  waiting(request: WaitingRequest): Promise<readonly WaitingMessage[]> {
    return this.#connection.use((file) => {
      demandCurrent(this.#path, file);
      // One transaction, so that the head and what is behind it are of one moment. It reads: nobody waits for it.
      file.sql.run('BEGIN');
      try {
        return transitions.waiting(new SqliteLedger(file.sql, ''), request);
      } finally {
        file.sql.run('COMMIT');
      }
    });
  }

  pace(request: PaceRequest): Promise<PaceAnswer> {
    return this.#step((ledger, moment) => transitions.pace(ledger, request, moment));
  }

  async subscribe(instance: string, listener: (push: Push) => void): Promise<() => Promise<void>> {
    this.#isClosed = false;
    // First of all: beside a path that cannot work, nothing is left.
    await this.#connection.use(() => {});
    this.#told(() => this.#presence.write(instance, this.#seated.has(instance)));
    // Again for one that hears nothing any more: what it waits for stays.
    const former = this.#subscribers.get(instance);
    former?.wire.close();
    const wire = this.#makeWire();
    await wire.listen(instance, (push) => this.#hear(instance, push));
    const subscriber = { listener, wire, waiting: former?.waiting ?? this.#makeWaiting(instance) };
    this.#subscribers.set(instance, subscriber);
    return async () => {
      if (this.#subscribers.get(instance) === subscriber) this.#unsubscribe(instance);
    };
  }

  inspect(): Promise<StoreView> {
    return this.#connection.use((file) => {
      demandCurrent(this.#path, file);
      return view(file.sql, this.#time().nowMs);
    });
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    for (const instance of [...this.#subscribers.keys()]) this.#unsubscribe(instance);
    this.#wire.close();
    this.#connection.close();
  }

  /** One that still listens keeps its note: without it, whoever joins next would clear its socket away. */
  #noteLeft(instance: string): void {
    if (!this.#subscribers.has(instance)) {
      this.#told(() => this.#presence.forgetSeat(instance));
      return;
    }
    try {
      this.#presence.write(instance, false);
    } catch {
      // It has left, and that is what counts: pushes are hints.
    }
  }

  #unsubscribe(instance: string): void {
    const subscriber = this.#subscribers.get(instance);
    if (subscriber === undefined) return;
    this.#subscribers.delete(instance);
    subscriber.waiting.end();
    subscriber.wire.close();
    this.#seated.delete(instance);
    this.#presence.forget(instance);
  }

  // ── Steps ──────────────────────────────────────────────────────────────────────────────────────────────────────────

  async #step<Answer>(run: Run<Answer>): Promise<Answer> {
    this.#told(() => {
      this.#boot ??= bootId();
    });
    return this.#connection.use((file) => this.#transact(file, run));
  }

  /**
   * A disk that is nearly full takes a heartbeat and refuses a batch. Heartbeats alone would keep up the trust of a replica
   * whose calls wait for ever, so they fail with the batch until it is written.
   */
  async #stepOrRefuse<Answer>(run: Run<Answer>): Promise<Answer> {
    try {
      const answer = await this.#step(run);
      this.#refusal = undefined;
      return answer;
    } catch (error) {
      this.#refusal = error as Error;
      throw error;
    }
  }

  /** What the file system refuses, in our words. */
  #told(act: () => void): void {
    try {
      act();
    } catch (error) {
      throw explain(this.#path, error);
    }
  }

  #transact<Answer>(file: OpenFile, run: Run<Answer>): Answer {
    const pushes: Outgoing[] = [];
    this.#parkedNow = [];
    file.sql.run('BEGIN IMMEDIATE');
    let answer: Answer;
    try {
      // Now that nobody else writes: what is written to files that are no longer there is lost.
      demandCurrent(this.#path, file);
      const ledger = new SqliteLedger(file.sql, JSON.stringify(this.#own));
      const moment = { ...this.#time(), run: `${this.#boot} ${file.identity}` };
      this.#noticeStart(ledger, moment, pushes);
      answer = run(ledger, moment, pushes, file);
      ledger.flush();
      file.sql.run('COMMIT');
    } catch (error) {
      rollBack(file.database);
      throw error;
    }
    this.#untold.push(...this.#parkedNow);
    for (const { instance: to, push } of pushes) this.#send(to, push);
    return answer;
  }

  /**
   * A new file, one put back, or one from before a reboot. If nobody is at work on this path, all that is written in it is
   * surely over, and there is nothing to wait out. Otherwise the step begins a new era, with its quarantine.
   */
  #noticeStart(ledger: SqliteLedger, moment: Moment, pushes: Outgoing[]): void {
    if (ledger.run === moment.run || this.#seated.size > 0 || this.#presence.hasAny()) return;
    ledger.run = moment.run;
    for (const { epoch } of ledger.live.values()) this.#kill(ledger, epoch, moment, pushes);
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
      look: (epoch, era, isWaiting) => {
        if (this.#looks) this.#lookForGrants(instance, epoch, era, isWaiting);
      },
      bury: () => this.#buryEnded(),
      version: () => this.#connection.file?.sql.get('PRAGMA data_version')?.data_version,
    });
  }

  /** The safety net under the wire: grants that stand in the file. */
  #lookForGrants(instance: string, epoch: number, era: number, isWaiting: (seq: number) => boolean): void {
    const rows = this.#connection.file?.sql.all(
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
    const { file } = this.#connection;
    if (file === undefined || !seats(file).some((seat) => hasEnded(seat.process, this.#own))) return;
    await this.#step((ledger, moment, pushes, current) => this.#buryEndedIn(current, ledger, moment, pushes));
  }

  #buryEndedIn(file: OpenFile, ledger: SqliteLedger, moment: Moment, pushes: Outgoing[]): void {
    for (const { epoch, instance, process } of seats(file)) {
      if (process.pid !== this.#own.pid) warnOfOldLibrary(file.version);
      if (!hasEnded(process, this.#own)) continue;
      this.#kill(ledger, epoch, moment, pushes);
      this.#presence.forget(instance);
    }
  }

  #kill(ledger: SqliteLedger, epoch: number, moment: Moment, pushes: Outgoing[]): void {
    this.#parkedNow.push(...transitions.kill(ledger, epoch, moment, pushes));
  }

  /** The eldest alone writes the log back into the file. */
  #checkpoint(epoch: number): void {
    const { file } = this.#connection;
    const eldest = file?.sql.get('SELECT min(epoch) AS eldest FROM replica')?.eldest;
    file?.database.exec(`PRAGMA wal_autocheckpoint = ${eldest === epoch ? LOG_PAGES : 0}`);
  }
}

/** The stamps of one whose clock is far off would not rise with the others' clocks. Nobody else is disturbed by it. */
function demandSaneClock(wallMs: number): void {
  if (isClockSane(wallMs)) return;
  const date = new Date(wallMs);
  const shown = Number.isNaN(date.getTime()) ? String(wallMs) : `the year ${date.getUTCFullYear()}`;
  throw new ConfigError(`SQLite: the host's clock shows ${shown}. Set it: stamps are made of it, up to the year 2112.`);
}

/** The host's monotonic clock is common to all its processes. */
function hostTime(): HostTime {
  return { nowMs: Number(process.hrtime.bigint()) / 1e6, wallMs: Date.now() };
}

function seats({ sql }: OpenFile): { epoch: number; instance: string; process: ProcessIdentity }[] {
  return sql.all('SELECT epoch, instance, process FROM replica').map((row) => ({
    epoch: row.epoch as number,
    instance: row.instance as string,
    process: JSON.parse(row.process as string) as ProcessIdentity,
  }));
}
