/** What the script answers: a line of numbers, then texts. */
import type {
  Adoption,
  ApplyAnswer,
  BeatAnswer,
  BeatRequest,
  Grant,
  JoinAnswer,
  News,
  Note,
  Op,
  ParkedNotice,
  Push,
  Taken,
} from '@botmesh/core/spi';
import { fromWire } from './text.js';

/** Reads one answer from its beginning to its end. */
export class Reader {
  readonly #parts: readonly string[];
  #at = 0;

  /** @throws Error when it is no answer of the script: its meaning is not known */
  constructor(reply: unknown) {
    if (!Array.isArray(reply) || !reply.every((part) => typeof part === 'string')) {
      throw new Error(`Redis: expected a list of texts from the script, found ${typeof reply}.`);
    }
    this.#parts = reply;
  }

  get isAtEnd(): boolean {
    return this.#at >= this.#parts.length;
  }

  /** The next part as it is. */
  line(): string {
    const part = this.#parts[this.#at++];
    if (part === undefined) throw new Error('Redis: an answer of the script ended too early.');
    return part;
  }

  text(): string {
    return fromWire(this.line());
  }

  numbers(): number[] {
    return this.line().split(' ').map(Number);
  }
}

export function readJoin(reply: unknown): JoinAnswer {
  const reader = new Reader(reply);
  const [kind, first, second, third, parked] = reader.line().split(' ');
  if (kind === 'joined') {
    const notices = times(Number(parked), () => readParked(reader));
    return { kind, epoch: Number(first), era: Number(second), quarantined: third === '1', parked: notices };
  }
  if (kind === 'replaced') return { kind };
  if (kind !== 'refused') throw unknownAnswer();
  return { kind, found: { format: Number(first), leaseMs: Number(second), shards: Number(third) } };
}

const NO_NEWS: News = { grants: [], adopted: [], parked: [] };

export function readApply(reply: unknown, ops: readonly Op[]): ApplyAnswer {
  const reader = new Reader(reply);
  const [kind, era, base, grants, adopted, parked, ...results] = reader.line().split(' ');
  if (kind !== 'applied') return readRefusal(kind);
  return {
    kind,
    era: Number(era),
    results: readResults(results, Number(base), ops),
    news: readNews(reader, Number(grants), Number(adopted), Number(parked)),
  };
}

/**
 * `+` is a place and a fence that are the two stamps after the last that was told, `~` a place that is the next one and
 * waits, `.` one that was let go and had the fence after its number, `-` nothing; else `seq` or `seq,fence`, counted from
 * `base`.
 */
function readResults(results: readonly string[], base: number, ops: readonly Op[]): (Taken | null)[] {
  const taken: (Taken | null)[] = [];
  let last = base;
  for (const result of results) {
    if (result === '+') {
      taken.push({ seq: last + 1, fence: last + 2 });
      last += 2;
    } else if (result === '~') {
      last += 1;
      taken.push({ seq: last, fence: 0 });
    } else if (result === '.') {
      const { seq } = ops[taken.length] as Op & { op: 'release' };
      taken.push({ seq, fence: seq + 1 });
    } else if (result !== '') taken.push(result === '-' ? null : readTaken(result, base));
  }
  return taken;
}

function readTaken(result: string, base: number): Taken {
  const [seq = 0, fence] = result.split(',').map(Number);
  return { seq: base + seq, fence: fence === undefined ? 0 : base + fence };
}

export function readBeat(reply: unknown, { view }: BeatRequest): BeatAnswer {
  const reader = new Reader(reply);
  const [kind, era, quarantined, more, notes, grants, adopted, parked, ...lost] = reader.line().split(' ');
  if (kind !== 'alive') return readRefusal(kind);
  return {
    kind,
    era: Number(era),
    quarantined: quarantined === '1',
    news: readNews(reader, Number(grants), Number(adopted), Number(parked)),
    lost: lost[0] === '' ? [] : lost.map((at) => view[Number(at)] as Grant),
    notes: times(Number(notes), () => readNote(reader)),
    more: more === '1',
  };
}

function readRefusal(kind: string | undefined): { kind: 'stale' } | { kind: 'dead' } | { kind: 'replaced' } {
  if (kind === 'stale' || kind === 'dead' || kind === 'replaced') return { kind };
  throw unknownAnswer();
}

function unknownAnswer(): Error {
  return new Error('Redis: the script gave an answer that this version does not know.');
}

function readNews(reader: Reader, grants: number, adopted: number, parked: number): News {
  if (grants === 0 && adopted === 0 && parked === 0) return NO_NEWS;
  return {
    grants: times(grants, () => readGrant(reader)),
    adopted: times(adopted, () => readAdoption(reader)),
    parked: times(parked, () => readParked(reader)),
  };
}

function times<T>(count: number, read: () => T): T[] {
  return Array.from({ length: count }, read);
}

function readGrant(reader: Reader): Grant {
  const [seq = 0, fence = 0] = reader.numbers();
  return { key: reader.text(), seq, fence };
}

function readAdoption(reader: Reader): Adoption {
  const [seq = 0, fence = 0, attempt = 0, hasId] = reader.numbers();
  const key = reader.text();
  const id = reader.text();
  return { key, seq, fence, id: hasId === 1 ? id : null, body: reader.text(), attempt };
}

function readParked(reader: Reader): ParkedNotice {
  const [attempts = 0, hasId, hasError] = reader.numbers();
  const key = reader.text();
  const id = reader.text();
  const error = reader.text();
  return { key, id: hasId === 1 ? id : null, attempts, error: hasError === 1 ? error : null };
}

function readNote(reader: Reader): Note {
  const [at = 0, seq = 0] = reader.numbers();
  return { at, key: reader.text(), seq, note: reader.text() };
}

/** Undefined for what is no push: anybody may publish on a channel. */
export function readPush(message: string): Push | undefined {
  const [kind, epoch, era, seq, fence] = message.split(' ', 5);
  if (kind === 'look' || kind === 'replaced' || kind === 'ping') return { kind, epoch: Number(epoch) };
  if (kind !== 'grant' || fence === undefined) return undefined;
  const key = fromWire(message.slice(`grant ${epoch} ${era} ${seq} ${fence} `.length));
  return { kind, epoch: Number(epoch), era: Number(era), key, seq: Number(seq), fence: Number(fence) };
}
