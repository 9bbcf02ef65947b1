import {
  type ApplyRequest,
  type BeatRequest,
  emptyRecord,
  type JoinRequest,
  type LeaveRequest,
  type MeshRecord,
  type Moment,
  type Outgoing,
  type PaceRequest,
  recordFromJson,
  recordToJson,
  transitions,
} from '@botmesh/core/spi';
import { type Birth, type Claim, decode, type Entry, LOG_VERSION, type Mark, parse } from './entry.js';

/** One message of the log as it was read. `atUs`: when the server wrote it. */
export interface Read {
  readonly seq: number;
  readonly atUs: number;
  /** The last part of its subject. */
  readonly subject: string;
  readonly data: Uint8Array;
}

/** What a message came to. */
export interface Outcome {
  /** Of the step that it ended; undefined when it ended none. */
  readonly id: string | undefined;
  readonly answer: unknown;
  /** Why it was not made, when it was not. */
  readonly failure: Failure | undefined;
  readonly pushes: readonly Outgoing[];
}

/** `version`: replicas of another version are in the mesh. `broken`: it is no step that can be made. */
export type Failure =
  | { readonly kind: 'version'; readonly version: number }
  | { readonly kind: 'broken'; readonly cause: unknown };

/** Of so many messages it is known when they were written: a sender that is further behind claims nothing. */
const RING = 1024;
/** Parts of a step that was never ended are forgotten when so many messages came after. */
const OLDEST_PART = 8192;
const FORMER_SERVERS = 16;
/** For so many leases nobody of another version may have spoken, before the log changes its version. */
const VERSION_LEASES = 3;
const DEFAULT_LEASE_MS = 12_000;

interface Parts {
  readonly first: number;
  readonly pieces: (Uint8Array | undefined)[];
}

/** What of a copy a snapshot's first line has. */
interface Head {
  readonly version: number;
  readonly versionAtMs: number;
  readonly applied: number;
  readonly appliedAt: number;
  readonly read: number;
  readonly birth: string;
  readonly server: string;
  readonly former: readonly string[];
  readonly losses: number;
  readonly ring: readonly (readonly [number, number])[];
  readonly parts: readonly (readonly [string, number, readonly (string | null)[]])[];
}

/**
 * One replica's copy of the record. Every replica reads the same messages in the same order, and does with each the same:
 * so all copies are equal, message by message. Knows no clock and no network.
 */
export class Copy {
  record: MeshRecord = emptyRecord();
  /** The last message that was read. */
  applied: number;
  /** When it was written, in microseconds. */
  appliedAt = 0;
  /** Of the messages that are read now; 0 before the first. */
  version = 0;
  /** How many bytes of log were read since the birth. */
  read = 0;
  /** The newest snapshot that is whole. */
  mark: Pick<Mark, 'seq' | 'bytes' | 'read'> = { seq: 0, bytes: 0, read: 0 };
  #versionAtMs = 0;
  #birth = '';
  #server = '';
  #former: readonly string[] = [];
  #losses = 0;
  readonly #ring = new Map<number, number>();
  readonly #parts = new Map<string, Parts>();

  /** A copy that has read nothing, up to the message `applied`. */
  constructor(applied = 0) {
    this.applied = applied;
  }

  /** Undefined where `text` is of a later version: what it means is not known here. */
  static fromSnapshot(text: string): Copy | undefined {
    const end = text.indexOf('\n');
    const head = JSON.parse(text.slice(0, end)) as Head;
    if (head.version > LOG_VERSION) return undefined;
    const copy = new Copy(head.applied);
    copy.record = recordFromJson(text.slice(end + 1));
    copy.appliedAt = head.appliedAt;
    copy.version = head.version;
    copy.read = head.read;
    copy.#versionAtMs = head.versionAtMs;
    copy.#birth = head.birth;
    copy.#server = head.server;
    copy.#former = head.former;
    copy.#losses = head.losses;
    for (const [seq, at] of head.ring) copy.#ring.set(seq, at);
    for (const [id, first, pieces] of head.parts) {
      copy.#parts.set(id, {
        first,
        pieces: pieces.map((piece) => (piece === null ? undefined : Buffer.from(piece, 'base64'))),
      });
    }
    return copy;
  }

  /** All of it as text. */
  toSnapshot(): string {
    const head: Head = {
      version: this.version,
      versionAtMs: this.#versionAtMs,
      applied: this.applied,
      appliedAt: this.appliedAt,
      read: this.read,
      birth: this.#birth,
      server: this.#server,
      former: this.#former,
      losses: this.#losses,
      ring: [...this.#ring],
      parts: [...this.#parts].map(([id, { first, pieces }]) => [
        id,
        first,
        Array.from(pieces, (piece) => (piece === undefined ? null : Buffer.from(piece).toString('base64'))),
      ]),
    };
    return `${JSON.stringify(head)}\n${recordToJson(this.record)}`;
  }

  /** Whether it has read the beginning of the log. */
  get isBorn(): boolean {
    return this.#birth !== '';
  }

  /** Undefined while nothing was read. */
  get claim(): Claim | null {
    return this.isBorn ? { era: this.record.era, seq: this.applied, at: this.appliedAt } : null;
  }

  /** Reads the next message: `seq` follows `applied`. */
  apply(message: Read): Outcome | undefined {
    this.applied = message.seq;
    this.appliedAt = message.atUs;
    const outcome = this.#applied(message);
    this.#ring.set(message.seq, message.atUs);
    this.#ring.delete(message.seq - RING);
    return outcome;
  }

  #applied(message: Read): Outcome | undefined {
    switch (message.subject) {
      case 'log':
        this.read += message.data.length;
        return this.#step(message, decode(message.data));
      case 'born':
        this.#begin(message);
        return undefined;
      case 'mark':
        this.#marked(message);
        return undefined;
      default:
        return undefined;
    }
  }

  #begin({ atUs, data }: Read): void {
    const birth = readJson<Birth>(data);
    if (birth === undefined) return;
    this.record = emptyRecord();
    this.version = birth.version;
    this.#versionAtMs = birth.toldMs ?? atUs / 1000;
    this.#birth = birth.id;
    this.#server = birth.server ?? '';
    this.#former = [];
    this.#losses = 0;
    this.#ring.clear();
    this.#parts.clear();
    this.read = 0;
    this.mark = { seq: 0, bytes: 0, read: 0 };
    if (birth.isFresh === true) this.record.run = this.#run;
  }

  #marked({ data }: Read): void {
    const mark = readJson<Mark>(data);
    if (mark !== undefined && mark.seq > this.mark.seq) this.mark = mark;
  }

  #step(message: Read, entry: Entry | undefined): Outcome | undefined {
    if (entry === undefined || !this.isBorn) return undefined;
    const nowMs = entry.toldMs ?? message.atUs / 1000;
    if (!this.#isOfVersion(entry.version, nowMs)) {
      return { id: entry.id, answer: undefined, failure: { kind: 'version', version: this.version }, pushes: [] };
    }
    // What later versions do is not known: this copy has to end here.
    if (this.version > LOG_VERSION) return undefined;
    this.#hearOf(entry, message.seq);
    if (entry.kind === 'note') return { id: entry.id, answer: undefined, failure: undefined, pushes: [] };
    const body = this.#whole(entry, message.seq);
    if (body === undefined) return undefined;
    const pushes: Outgoing[] = [];
    try {
      const answer = run(this.record, entry.kind, parse(body), { nowMs, run: this.#run }, pushes);
      return { id: entry.id, answer, failure: undefined, pushes };
    } catch (cause) {
      return { id: entry.id, answer: undefined, failure: { kind: 'broken', cause }, pushes };
    }
  }

  /** The log changes its version when nobody has spoken in the old one for some leases. */
  #isOfVersion(version: number, nowMs: number): boolean {
    const leaseMs = this.record.config?.leaseMs ?? DEFAULT_LEASE_MS;
    if (version !== this.version && nowMs - this.#versionAtMs <= VERSION_LEASES * leaseMs) return false;
    this.version = version;
    this.#versionAtMs = nowMs;
    return true;
  }

  /** R9: another server process, and a sender that has read what is not in this log, tell that messages may be lost. */
  #hearOf({ claim, server }: Entry, seq: number): void {
    if (server !== null && server !== this.#server && !this.#former.includes(server)) {
      // One that comes back is no new process: two servers speak for one stream, so neither tells anything.
      this.#former = [...this.#former, this.#server].slice(-FORMER_SERVERS);
      this.#server = server;
      return;
    }
    if (claim === null || claim.era !== this.record.era || claim.seq === 0) return;
    const at = this.#ring.get(claim.seq);
    if (claim.seq >= seq || (at !== undefined && at !== claim.at)) this.#losses = seq;
  }

  get #run(): string {
    return `${this.#birth} ${this.#server} ${this.#losses}`;
  }

  /** The body of a step, when this was the last of its parts. */
  #whole({ body, id, part, parts }: Entry, seq: number): Uint8Array | undefined {
    if (parts === 1) return body;
    for (const [other, { first }] of this.#parts) if (first < seq - OLDEST_PART) this.#parts.delete(other);
    const found = this.#parts.get(id) ?? { first: seq, pieces: [] };
    this.#parts.set(id, found);
    // A copy: the message's bytes are a view of all that came with them.
    found.pieces[part] = body.slice();
    if (part !== parts - 1) return undefined;
    this.#parts.delete(id);
    const pieces = Array.from({ length: parts }, (_, at) => found.pieces[at]);
    return pieces.includes(undefined) ? undefined : Buffer.concat(pieces as Uint8Array[]);
  }
}

function run(record: MeshRecord, kind: string, request: unknown, moment: Moment, pushes: Outgoing[]): unknown {
  switch (kind) {
    case 'join':
      return transitions.join(record, request as JoinRequest, moment, pushes);
    case 'apply':
      return transitions.apply(record, request as ApplyRequest, moment, pushes);
    case 'beat':
      return transitions.beat(record, request as BeatRequest, moment, pushes);
    case 'leave':
      return transitions.leave(record, request as LeaveRequest, moment, pushes);
    case 'pace':
      return transitions.pace(record, request as PaceRequest, moment);
    default:
      throw new Error(`There is no step '${kind}'.`);
  }
}

function readJson<T extends object>(data: Uint8Array): T | undefined {
  try {
    const value = parse(data) as T | null;
    return typeof value === 'object' && value !== null ? value : undefined;
  } catch {
    return undefined;
  }
}
