import { randomUUID } from 'node:crypto';
import { ConfigError, CoordinationUnavailableError, type MeshRecord, type Push } from '@botmesh/core/spi';
import type { NatsSubscription } from '../clients/client.js';
import { ApiError, judge, NO_STREAM, WRONG_LAST } from '../clients/failures.js';
import { type Link, seqOf } from '../clients/Link.js';
import type { SharedLink } from '../clients/SharedLink.js';
import { within } from '../clients/within.js';
import type { Place } from '../namespace.js';
import { Copy, type Failure, type Read } from './Copy.js';
import { type Birth, type Claim, encode, type Kind, LOG_VERSION, type StepKind } from './entry.js';
import { Feed } from './Feed.js';
import { lastOf, messageAt, readSnapshot, writeSnapshot } from './snapshots.js';
import { ensureStream, look, type StreamState, type StreamWish } from './stream.js';

export interface LogOptions {
  /** Several logs may share it. */
  readonly link: SharedLink;
  readonly place: Place;
  readonly wish: StreamWish;
  /** How long a step may take. */
  readonly timeoutMs: number;
  /** A snapshot is due when so many bytes were logged, or twice its size. Default 2 MB. */
  readonly snapshotBytes?: number | undefined;
  /** For tests: the time and the server's identity, in place of what the server says. */
  readonly told?: (() => Told) | undefined;
}

export interface Told {
  readonly nowMs: number;
  readonly server: string;
}

/** A step under way. */
interface Pending {
  readonly resolve: (answer: unknown) => void;
  readonly reject: (error: Error) => void;
  readonly untilMs: number;
  /** When the server said that it has it. */
  storedAtMs: number;
}

/** What no log's stream may have in another way: all that would lose messages in silence. */
const FIXED = {
  discard: 'new',
  max_msgs: -1,
  max_msgs_per_subject: -1,
  max_msg_size: -1,
  max_age: 0,
  deny_delete: true,
  deny_purge: false,
} as const;

const SNAPSHOT_BYTES = 2 * 1024 * 1024;
/** The log is opened anew so many times, when it changes meanwhile. */
const TRIES = 32;
/** Who subscribes waits as long as so many steps may take. */
const OPENINGS = 4;
/** Of so many eras it is known how far they were read. */
const FORMER_CLAIMS = 8;
/** So often somebody is asked for a snapshot, each time more of them, before the log counts as lost. */
const ASKINGS = 8;

/**
 * A log that all replicas of a shard read, and one replica's copy of the record. A step is one message: its answer is what
 * the copy came to when it read that message, behind all that was written before it.
 */
export class Log {
  readonly #options: LogOptions;
  readonly #sender = randomUUID().slice(0, 13);
  readonly #pending = new Map<string, Pending>();
  readonly #listeners = new Map<string, (push: Push) => void>();
  readonly #waiting = new Set<{ readonly seq: number; readonly resolve: () => void }>();
  #steps = 0;
  #copy: Copy | undefined;
  /** What was read of eras before the present one, by this copy and those before it. */
  #claims: readonly Claim[] = [];
  #created = '';
  /** A message that this log had and has no more. A copy has to come from behind it. */
  #missing = 0;
  #link: Link | undefined;
  #feed: Feed | undefined;
  #acks: NatsSubscription | undefined;
  #ackInbox = '';
  #offBack: (() => void) | undefined;
  #opening: Promise<void> | undefined;
  #isReady = false;
  /** How often it was closed. */
  #life = 0;
  #sweeper: NodeJS.Timeout | undefined;
  #isWriting = false;
  #hasWarned = false;

  constructor(options: LogOptions) {
    this.#options = options;
  }

  /** Makes a step: one message, and its answer when this replica has read it. */
  async step<Answer>(kind: StepKind, request: unknown): Promise<Answer> {
    const link = await this.#ready();
    this.#steps += 1;
    const id = `${this.#sender}:${this.#steps}`;
    const answered = new Promise<unknown>((resolve, reject) => {
      const untilMs = performance.now() + this.#options.timeoutMs;
      this.#pending.set(id, { resolve, reject, untilMs, storedAtMs: 0 });
    });
    try {
      this.#publish(link, kind, id, request, this.#copy?.claim ?? null);
    } catch (error) {
      this.#fail(id, error);
    }
    this.#sweep();
    return (await answered) as Answer;
  }

  /** The record, with all in it that was logged when it was called. */
  async record(): Promise<{ readonly record: MeshRecord; readonly nowMs: number }> {
    const link = await this.#ready();
    const { place, timeoutMs } = this.#options;
    const state = await this.#guarded(look(link, place));
    await within(timeoutMs, 'read', this.reached(state?.last ?? 0)).catch((cause: unknown) => {
      throw judge(link.where, place.stream, cause);
    });
    const copy = this.#copy ?? new Copy();
    return { record: copy.record, nowMs: this.#options.told?.().nowMs ?? copy.appliedAt / 1000 };
  }

  /** Resolves when the message `seq` was read here. */
  reached(seq: number): Promise<void> {
    if (this.applied >= seq) return Promise.resolve();
    return new Promise((resolve) => this.#waiting.add({ seq, resolve }));
  }

  /** Whether it follows the log now. */
  get isReading(): boolean {
    return this.#isReady;
  }

  /** The last message that was read here. */
  get applied(): number {
    return this.#copy?.applied ?? 0;
  }

  async listen(instance: string, listener: (push: Push) => void): Promise<() => Promise<void>> {
    await this.#ready(OPENINGS);
    this.#listeners.set(instance, listener);
    return async () => {
      if (this.#listeners.get(instance) === listener) this.#listeners.delete(instance);
    };
  }

  /** Reads on from where the copy is, or anew when the log is another one than it was. */
  async again(): Promise<void> {
    this.#suspect();
    await this.#ready(OPENINGS);
  }

  async close(): Promise<void> {
    this.#life += 1;
    this.#stop();
    this.#offBack?.();
    this.#acks?.unsubscribe();
    this.#link = undefined;
    this.#copy = undefined;
    this.#tellReached(Number.POSITIVE_INFINITY);
    for (const id of [...this.#pending.keys()]) this.#fail(id, this.#unavailable('closed'));
    await this.#options.link.release(this);
  }

  // ── Opening ────────────────────────────────────────────────────────────────────────────────────────────────────────

  /** Waits for so many times the limit of a step: what comes later would be made twice. */
  async #ready(times = 1): Promise<Link> {
    if (!this.#isReady) {
      this.#opening ??= this.#open().finally(() => {
        this.#opening = undefined;
      });
      await this.#guarded(within(this.#options.timeoutMs * times, 'open the log', this.#opening));
    }
    const link = this.#link;
    if (link === undefined) throw this.#unavailable('closed');
    void link.info;
    if (this.#copy !== undefined && this.#copy.version > LOG_VERSION) throw this.#newer(this.#copy.version);
    return link;
  }

  async #open(): Promise<void> {
    const life = this.#life;
    const link = await this.#options.link.get(this);
    if (life !== this.#life) throw this.#unavailable('closed');
    this.#use(link);
    for (let tries = 1; ; tries++) {
      try {
        await this.#openOnce(link);
        if (life === this.#life) return;
        // Closed meanwhile: nobody would end what was opened.
        this.#stop();
        throw this.#unavailable('closed');
      } catch (error) {
        this.#feed?.stop();
        if (!(error instanceof Changed) || tries === TRIES) throw error;
      }
    }
  }

  #use(link: Link): void {
    if (this.#link === link) return;
    this.#offBack?.();
    this.#acks?.unsubscribe();
    this.#link = link;
    this.#offBack = link.onBack(() => this.#back());
    this.#ackInbox = link.inbox();
    this.#acks = link.subscribe(`${this.#ackInbox}.*`, (message) => this.#acknowledged(message.subject, message));
  }

  async #openOnce(link: Link): Promise<void> {
    const { place, wish } = this.#options;
    const state = await ensureStream(link, place, wish, FIXED);
    this.#warn(link, state);
    const copy = await this.#copyFor(link, state);
    const target = Math.max(state.last, copy.applied);
    let isBroken = false;
    let giveUp = (): void => {};
    const broken = new Promise<never>((_resolve, reject) => {
      giveUp = () => reject(new Changed());
    });
    broken.catch(() => {});
    const onBroken = (): void => {
      isBroken = true;
      giveUp();
      this.#suspect();
    };
    this.#feed?.stop();
    this.#feed = await Feed.start({
      link,
      stream: place.stream,
      from: copy.applied + 1,
      // Each of our own heartbeats comes back here, so silence is noticed by them as well.
      heartbeatMs: Math.max(500, this.#options.timeoutMs),
      onMessage: (message) => {
        if (!isBroken && !this.#read(message)) onBroken();
      },
      onBroken,
    });
    await Promise.race([this.reached(target), broken]);
    if (isBroken) throw new Changed();
    this.#isReady = true;
    // What was pushed meanwhile was not heard.
    for (const { epoch, instance } of copy.record.live.values())
      this.#listeners.get(instance)?.({ kind: 'look', epoch });
  }

  /** The copy there is, when the log goes on where it ends; else another one. */
  async #copyFor(link: Link, state: StreamState): Promise<Copy> {
    const former = this.#copy;
    if (former !== undefined && (await this.#goesOn(link, former, state))) return former;
    this.#copy = undefined;
    this.#remember(former?.claim ?? null);
    // Whoever reads it judges whether what was read here is still there. In an empty log that is no question.
    const told = state.last > 0 ? this.#claims : [];
    for (const claim of told) this.#publish(link, 'note', `${this.#sender}:note`, null, claim);
    const isSame = state.created === this.#created;
    if (!isSame) this.#missing = 0;
    this.#created = state.created;
    this.#copy = await this.#load(link, state, isSame ? former : undefined);
    return this.#copy;
  }

  /** Not the last one alone: a stream that is put back may have been an empty one for a moment, which was read as well. */
  #remember(claim: Claim | null): void {
    if (claim === null) return;
    this.#claims = [...this.#claims.filter(({ era }) => era !== claim.era), claim].slice(-FORMER_CLAIMS);
  }

  /** Whether the log is what it was when this copy read the end of it. */
  async #goesOn(link: Link, copy: Copy, state: StreamState): Promise<boolean> {
    if (state.created !== this.#created || state.last < copy.applied || copy.applied < state.first) return false;
    if (this.#missing > copy.applied) return false;
    const found = await messageAt(link, this.#options.place, copy.applied);
    return found !== undefined && found.atUs === copy.appliedAt;
  }

  /**
   * A copy from the newest snapshot, or from the beginning. Where neither is there, the former one if it has read exactly what
   * is gone, which nobody can compare any more; else the log begins anew.
   */
  async #load(link: Link, state: StreamState, former: Copy | undefined): Promise<Copy> {
    const { place } = this.#options;
    const snapshot = await readSnapshot(link, place);
    if (snapshot === 'later') throw this.#newer();
    const born = await lastOf(link, place, 'born');
    const bornAt = born?.seq ?? 0;
    const oldest = Math.max(bornAt, state.first - 1, this.#missing);
    if (snapshot !== undefined && snapshot.applied >= oldest) return snapshot;
    if (bornAt > this.#missing) return new Copy(bornAt - 1);
    if (former?.isBorn === true && former.applied === state.first - 1 && former.applied >= this.#missing) return former;
    return (await this.#wanted(link, state, oldest)) ?? this.#begin(link, bornAt);
  }

  /** The log has no beginning any more. A replica that has read all of it has a whole copy still, and is asked for it. */
  async #wanted(link: Link, state: StreamState, oldest: number): Promise<Copy | undefined> {
    if (state.first <= 1 && this.#missing === 0) return undefined;
    const pauseMs = (2 * this.#options.timeoutMs) / ASKINGS;
    for (let asking = 0; asking < ASKINGS; asking++) {
      this.#publish(link, 'want', `${this.#sender}:want`, asking, null);
      await new Promise((resolve) => setTimeout(resolve, pauseMs));
      const snapshot = await readSnapshot(link, this.#options.place);
      if (snapshot instanceof Copy && snapshot.applied >= oldest) return snapshot;
    }
    return undefined;
  }

  /** A log begins, or begins anew behind the birth `bornAt`: of several that want that, one does it. */
  async #begin(link: Link, bornAt: number): Promise<Copy> {
    const { place } = this.#options;
    const told = this.#options.told?.();
    const birth: Birth = {
      version: LOG_VERSION,
      id: randomUUID(),
      server: told?.server ?? link.server,
      toldMs: told?.nowMs ?? null,
    };
    try {
      const expected = { 'Nats-Expected-Last-Subject-Sequence': String(bornAt) };
      const seq = await link.put(`${place.prefix}.born`, new TextEncoder().encode(JSON.stringify(birth)), expected);
      return new Copy(seq - 1);
    } catch (error) {
      if (error instanceof ApiError && WRONG_LAST.has(error.reason)) throw new Changed();
      throw error;
    }
  }

  // ── Reading ────────────────────────────────────────────────────────────────────────────────────────────────────────

  /** False when it is not the one that follows: purged behind a newer snapshot, or taken out of the middle. */
  #read(message: Read): boolean {
    const copy = this.#copy;
    if (copy === undefined) return false;
    if (message.seq !== copy.applied + 1) {
      if (message.seq > copy.applied) this.#missing = Math.max(this.#missing, copy.applied + 1);
      return false;
    }
    const before = copy.claim;
    const outcome = copy.apply(message);
    if (before?.era !== copy.record.era) this.#remember(before);
    if (outcome !== undefined) {
      for (const { instance, push } of outcome.pushes) this.#listeners.get(instance)?.(push);
      if (outcome.wanted !== undefined && this.#rank(copy) <= 2 * outcome.wanted) this.#writeSnapshot(copy);
      if (outcome.id !== undefined) this.#answer(outcome.id, outcome.answer, outcome.failure);
    }
    if (this.#waiting.size > 0) this.#tellReached(message.seq);
    this.#mayWriteSnapshot(copy);
    return true;
  }

  #answer(id: string, answer: unknown, failure: Failure | undefined): void {
    const pending = this.#pending.get(id);
    if (pending === undefined) return;
    if (failure !== undefined) {
      this.#fail(
        id,
        failure.kind === 'version'
          ? this.#otherVersion(failure.version)
          : this.#unavailable('the step failed', failure.cause),
      );
      return;
    }
    this.#pending.delete(id);
    pending.resolve(answer);
  }

  #tellReached(seq: number): void {
    for (const each of this.#waiting) {
      if (each.seq > seq) continue;
      this.#waiting.delete(each);
      each.resolve();
    }
  }

  // ── Writing ────────────────────────────────────────────────────────────────────────────────────────────────────────

  #publish(link: Link, kind: Kind, id: string, request: unknown, claim: Claim | null): void {
    const told = this.#options.told?.();
    const head = { kind, id, server: told?.server ?? link.server, claim, toldMs: told?.nowMs ?? null };
    const most = link.info.max_payload - 1024;
    for (const message of encode(head, request, most)) {
      link.publish(`${this.#options.place.prefix}.log`, message, `${this.#ackInbox}.${id}`);
    }
  }

  #acknowledged(subject: string, message: Parameters<typeof seqOf>[0]): void {
    const id = subject.slice(this.#ackInbox.length + 1);
    const pending = this.#pending.get(id);
    if (pending === undefined) return;
    try {
      const seq = seqOf(message);
      pending.storedAtMs = performance.now();
      // It was written where this copy has read something else: the log is not what it was.
      if (seq <= this.applied) this.#suspect();
    } catch (error) {
      if (error instanceof ApiError && error.reason === NO_STREAM) this.#suspect();
      this.#fail(id, error);
    }
  }

  #mayWriteSnapshot(copy: Copy): void {
    const { snapshotBytes = SNAPSHOT_BYTES } = this.#options;
    const since = copy.read - copy.mark.read;
    if (since < snapshotBytes) return;
    const rank = this.#rank(copy);
    // One replica writes. The next in line does when that one has not.
    if (since >= Math.max(snapshotBytes, 2 * copy.mark.bytes) * (1 + rank / 4)) this.#writeSnapshot(copy);
  }

  #writeSnapshot(copy: Copy): void {
    const link = this.#link;
    if (link === undefined || this.#isWriting || !this.#isReady) return;
    this.#isWriting = true;
    const { place } = this.#options;
    const isOver = (): void => {
      this.#isWriting = false;
    };
    writeSnapshot(link, place, { seq: copy.applied, read: copy.read, text: copy.toSnapshot() }).then(
      isOver,
      (error: unknown) => {
        // The next message comes soon: what failed is not tried again at once.
        setTimeout(isOver, this.#options.timeoutMs / 4).unref();
        // Whoever reads on finds out what became of the stream, or of the connection.
        const isTold = (error instanceof ApiError && error.reason === NO_STREAM) || !this.#isReady;
        if (!isTold) this.#warnOnce(`No snapshot was written: ${judge(link.where, place.stream, error).message}`);
      },
    );
  }

  /** How many replicas come before those here, in the order of their epochs. At most 8. */
  #rank(copy: Copy): number {
    let rank = 0;
    for (const { instance, replaced } of copy.record.live.values()) {
      if (this.#listeners.has(instance) || rank === 8) return rank;
      if (!replaced) rank += 1;
    }
    return 8;
  }

  // ── What goes wrong ────────────────────────────────────────────────────────────────────────────────────────────────

  /** Connected again, or refused. */
  #back(): void {
    const refusal = this.#link?.takeRefusal();
    if (refusal !== undefined) {
      for (const id of [...this.#pending.keys()]) this.#fail(id, refusal);
      return;
    }
    this.#suspect();
  }

  /** The log may have gone on without this copy, or be another one: it is looked at before anything else is done. */
  #suspect(): void {
    if (this.#link === undefined) return;
    this.#isReady = false;
    if (this.#opening !== undefined) return;
    this.#feed?.stop();
    this.#ready().catch(() => {});
  }

  #stop(): void {
    this.#isReady = false;
    this.#feed?.stop();
    this.#feed = undefined;
    clearInterval(this.#sweeper);
    this.#sweeper = undefined;
  }

  #sweep(): void {
    const everyMs = this.#options.timeoutMs / 8;
    this.#sweeper ??= setInterval(() => setImmediate(() => this.#lookAtPending()), everyMs).unref();
  }

  #lookAtPending(): void {
    if (this.#pending.size === 0) {
      clearInterval(this.#sweeper);
      this.#sweeper = undefined;
      return;
    }
    const now = performance.now();
    const stallMs = this.#options.timeoutMs / 2;
    for (const [id, { storedAtMs, untilMs }] of this.#pending) {
      // Written, and not read here: the server forgot whom to tell.
      if (storedAtMs !== 0 && now - storedAtMs > stallMs && this.#isReady) this.#suspect();
      if (now > untilMs)
        this.#fail(id, this.#unavailable(`no answer within ${Math.round(this.#options.timeoutMs)} ms`));
    }
  }

  #fail(id: string, error: unknown): void {
    const pending = this.#pending.get(id);
    this.#pending.delete(id);
    pending?.reject(judge(this.#link?.where ?? 'NATS', this.#options.place.stream, error));
  }

  async #guarded<T>(work: Promise<T>): Promise<T> {
    try {
      return await work;
    } catch (error) {
      throw judge(this.#link?.where ?? 'NATS', this.#options.place.stream, error);
    }
  }

  #unavailable(why: string, cause?: unknown): CoordinationUnavailableError {
    const where = this.#link?.where ?? 'NATS';
    return new CoordinationUnavailableError('unavailable', `${where}, ${this.#options.place.stream}: ${why}.`, {
      cause,
    });
  }

  #otherVersion(version: number): ConfigError {
    return new ConfigError(
      `Replicas in ${this.#options.place.stream} run steps of version ${version}, this one of ${LOG_VERSION}. Stop them all, wait three leases, then start the new ones; or use another namespace.`,
      'config-mismatch',
    );
  }

  #newer(version?: number): ConfigError {
    return new ConfigError(
      `${this.#options.place.stream} was written by a later version of botmesh${version === undefined ? '' : ` (${version})`}, this one knows ${LOG_VERSION}. Update this replica, or use another namespace.`,
      'config-mismatch',
    );
  }

  #warn(link: Link, { replicas }: StreamState): void {
    if (link.info.cluster === undefined || replicas > 1) return;
    this.#warnOnce(
      `${this.#options.place.stream} is kept by one server of a cluster. When that server loses what it had not yet written to its disk, it is noticed late. Use replicas: 3.`,
    );
  }

  #warnOnce(message: string): void {
    if (this.#hasWarned) return;
    this.#hasWarned = true;
    process.emitWarning(message, { type: 'BotmeshWarning', code: 'nats-log' });
  }
}

/** The log changed while it was opened: it is opened anew. */
class Changed extends Error {
  override readonly name = 'Changed';
}
