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
  type Push,
  type Store,
  type StoreView,
  transitions,
} from '@botmesh/core/spi';
import type { DriverName } from './driver.js';
import { identityOf, isBusy, type OpenFile, openFile } from './file.js';
import { view } from './inspect.js';
import { Presence } from './Presence.js';
import { bootId, hasEnded, ownIdentity, type ProcessIdentity } from './processes.js';
import { SqliteLedger } from './SqliteLedger.js';
import { Waiting } from './Waiting.js';
import { Wire } from './Wire.js';

export interface SqliteStoreOptions {
  readonly path: string;
  readonly driver?: DriverName | undefined;
  /** What the two clocks say; for tests. Default: the host's monotonic clock, and its wall clock. */
  readonly time?: (() => { nowMs: number; wallMs: number }) | undefined;
}

/** How long a step goes on trying while others hold the file. */
const BUSY_LIMIT_MS = 1_000;

type Run<Answer> = (ledger: SqliteLedger, moment: Moment, pushes: Outgoing[]) => Answer;

/** The protocol's steps on one SQLite file: each is the reference transition, run over the tables in one transaction. */
export class SqliteStore implements Store {
  readonly #path: string;
  readonly #driver: DriverName | undefined;
  readonly #time: () => { nowMs: number; wallMs: number };
  readonly #own: ProcessIdentity = ownIdentity();
  readonly #boot = bootId();
  readonly #presence: Presence;
  readonly #wire: Wire;
  readonly #waiting: Waiting;
  #opening: Promise<OpenFile> | undefined;
  #file: OpenFile | undefined;
  #instance = '';
  #onPush: ((push: Push) => void) | undefined;

  constructor(options: SqliteStoreOptions) {
    this.#path = options.path;
    this.#driver = options.driver;
    this.#time = options.time ?? hostTime;
    this.#presence = new Presence(this.#path, this.#own);
    this.#wire = new Wire((instance) => this.#presence.socketOf(instance));
    this.#waiting = new Waiting({
      look: (epoch, era) => this.#lookForGrants(epoch, era),
      bury: () => this.#buryEnded(),
      version: () => this.#file?.sql.get('PRAGMA data_version')?.data_version,
    });
  }

  async join(request: JoinRequest): Promise<JoinAnswer> {
    const answer = await this.#step((ledger, moment, pushes) => transitions.join(ledger, request, moment, pushes));
    if (answer.kind === 'joined') {
      this.#presence.note(request.instance);
      this.#waiting.begin(answer.epoch, answer.era);
    }
    return answer;
  }

  async apply(request: ApplyRequest): Promise<ApplyAnswer> {
    const answer = await this.#step((ledger, moment, pushes) => transitions.apply(ledger, request, moment, pushes));
    this.#waiting.afterApply(request, answer);
    return answer;
  }

  async beat(request: BeatRequest): Promise<BeatAnswer> {
    const answer = await this.#step((ledger, moment, pushes) => {
      this.#buryEndedIn(ledger, moment, pushes);
      return transitions.beat(ledger, request, moment, pushes);
    });
    this.#waiting.afterBeat(request, answer);
    this.#checkpoint(request.epoch);
    return answer;
  }

  async leave(request: LeaveRequest): Promise<void> {
    await this.#step((ledger, moment, pushes) => transitions.leave(ledger, request, moment, pushes));
  }

  async subscribe(instance: string, listener: (push: Push) => void): Promise<() => Promise<void>> {
    this.#presence.make();
    this.#instance = instance;
    this.#wire.close();
    await this.#wire.listen(instance, (push) => this.#hear(push));
    this.#onPush = listener;
    return async () => {
      if (this.#onPush !== listener) return;
      this.#onPush = undefined;
      this.#waiting.end();
      this.#wire.close();
      this.#presence.forget(instance);
    };
  }

  async inspect(): Promise<StoreView> {
    const { sql } = await this.#open();
    return view(sql, this.#time().nowMs);
  }

  async close(): Promise<void> {
    this.#waiting.end();
    this.#wire.close();
    this.#drop();
  }

  #hear(push: Push): void {
    if (push.kind === 'grant') this.#waiting.granted(push.seq);
    this.#onPush?.(push);
  }

  // ── Steps ──────────────────────────────────────────────────────────────────────────────────────────────────────────

  /** Waits between attempts, not in them: the event loop goes on while others write. */
  async #step<Answer>(run: Run<Answer>): Promise<Answer> {
    const startedMs = performance.now();
    for (;;) {
      const file = await this.#open();
      try {
        return this.#transact(file, run);
      } catch (error) {
        if (!isBusy(error)) {
          this.#drop();
          throw error;
        }
        if (performance.now() - startedMs > BUSY_LIMIT_MS) {
          throw new Error(`SQLite: ${this.#path} is locked by another writer.`, { cause: error });
        }
      }
      await new Promise((resolve) => setTimeout(resolve, 1 + Math.random() * 4));
    }
  }

  #transact<Answer>(file: OpenFile, run: Run<Answer>): Answer {
    const pushes: Outgoing[] = [];
    file.sql.run('BEGIN IMMEDIATE');
    let answer: Answer;
    try {
      if (identityOf(this.#path) !== file.identity) throw new Error(`SQLite: ${this.#path} was replaced.`);
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
    for (const { instance, push } of pushes) this.#send(instance, push);
    return answer;
  }

  /**
   * A new file, one put back, or one from before a reboot. If nobody else is at work on this path, all that is written in
   * it is surely over, and there is nothing to wait out. Otherwise the step begins a new era, with its quarantine.
   */
  #noticeStart(ledger: SqliteLedger, moment: Moment, pushes: Outgoing[]): void {
    if (ledger.run === moment.run || this.#presence.hasOthers(this.#instance)) return;
    ledger.run = moment.run;
    for (const { epoch } of ledger.live.values()) transitions.kill(ledger, epoch, moment, pushes);
  }

  #send(instance: string, push: Push): void {
    if (instance === this.#instance) this.#onPush?.(push);
    else this.#wire.send(instance, push);
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

  // ── Processes that ended ───────────────────────────────────────────────────────────────────────────────────────────

  /** Looks whether a process with a seat has ended, and if so buries its replica. */
  async #buryEnded(): Promise<void> {
    const { sql } = await this.#open();
    if (ended(sql, this.#own).length === 0) return;
    await this.#step((ledger, moment, pushes) => this.#buryEndedIn(ledger, moment, pushes));
  }

  #buryEndedIn(ledger: SqliteLedger, moment: Moment, pushes: Outgoing[]): void {
    const { sql } = this.#file ?? {};
    if (sql === undefined) return;
    for (const epoch of ended(sql, this.#own)) transitions.kill(ledger, epoch, moment, pushes);
  }

  /** The safety net under the wire: grants of this replica's that stand in the file. */
  #lookForGrants(epoch: number, era: number): void {
    const rows = this.#file?.sql.all(
      'SELECT key, seq, fence FROM entry WHERE owner = ? AND fence <> 0 AND era = ?',
      epoch,
      era,
    );
    for (const row of rows ?? []) {
      const seq = row.seq as number;
      if (!this.#waiting.has(seq)) continue;
      this.#hear({ kind: 'grant', epoch, era, key: row.key as string, seq, fence: row.fence as number });
    }
  }

  /** The eldest alone writes the log back into the file. */
  #checkpoint(epoch: number): void {
    const eldest = this.#file?.sql.get('SELECT min(epoch) AS eldest FROM replica')?.eldest;
    this.#file?.database.exec(`PRAGMA wal_autocheckpoint = ${eldest === epoch ? 1000 : 0}`);
  }
}

/** The host's monotonic clock, common to all its processes. */
function hostTime(): { nowMs: number; wallMs: number } {
  return { nowMs: Number(process.hrtime.bigint()) / 1e6, wallMs: Date.now() };
}

function ended(sql: OpenFile['sql'], own: ProcessIdentity): number[] {
  return sql
    .all('SELECT epoch, process FROM replica')
    .filter((row) => hasEnded(JSON.parse(row.process as string) as ProcessIdentity, own))
    .map((row) => row.epoch as number);
}

function rollBack(file: OpenFile): void {
  try {
    file.sql.run('ROLLBACK');
  } catch {
    // The library has done so itself, or the connection is beyond use: it is closed next.
  }
}
