/** What the functions of the schema answer: a line of JSON with pushes, a line of words and numbers, lines of JSON. */
import type {
  Adoption,
  ApplyAnswer,
  BeatAnswer,
  BeatRequest,
  Grant,
  JoinAnswer,
  News,
  Note,
  ParkedNotice,
  Push,
  Taken,
  Waiting,
} from '@botmesh/core/spi';
import { fromWire, fromWireOrNull } from './text.js';

/** A push and the instance that it is for, as the functions write it: the key of a grant comes last. */
export type RawPush = readonly [
  instance: string,
  kind: Push['kind'],
  epoch: number,
  era?: number,
  seq?: number,
  fence?: number,
  key?: string,
];

export interface Reply {
  readonly pushes: readonly RawPush[];
  readonly words: readonly string[];
  readonly news: string;
  readonly notes: string;
}

const NO_PUSHES: readonly RawPush[] = [];

/** @throws Error when it is no answer of a step: its meaning is not known */
export function readReply(text: string | null): Reply {
  const [pushes, words, news = '', notes = ''] = text?.split('\n') ?? [];
  if (pushes === undefined || words === undefined) throw new Error('PostgreSQL: a step gave no answer.');
  return {
    pushes: pushes === '' ? NO_PUSHES : (JSON.parse(pushes) as RawPush[]),
    words: words.split(' '),
    news,
    notes,
  };
}

/** Finds what a key or an id was that is too long to be stored as it is. */
export type KeyOf = (short: string) => string;

export function readJoin({ news, words }: Reply, keyOf: KeyOf): JoinAnswer {
  const [kind, first, second, third] = words;
  if (kind === 'joined') {
    const { parked } = readNews(news, keyOf);
    return { kind, epoch: Number(first), era: Number(second), quarantined: third === '1', parked };
  }
  if (kind === 'replaced') return { kind };
  if (kind !== 'refused') throw unknownAnswer();
  const [format = 0, leaseMs = 0, shards = 0] = JSON.parse(words.slice(1).join(' ')) as number[];
  return { kind, found: { format, leaseMs, shards } };
}

export function readApply({ news, words }: Reply, keyOf: KeyOf): ApplyAnswer {
  const [kind, era, base] = words;
  if (kind !== 'applied') return readRefusal(kind);
  return { kind, era: Number(era), results: readResults(words, Number(base)), news: readNews(news, keyOf) };
}

/**
 * From the fourth word on: `+` is a place and a fence that are the two stamps after the last that was told by a mark, `~`
 * a place that is the next one and waits, `-` nothing; else `seq` or `seq,fence`, counted from `base`.
 */
function readResults(words: readonly string[], base: number): (Taken | null)[] {
  const taken: (Taken | null)[] = [];
  let told = base;
  for (let at = 3; at < words.length; at += 1) {
    const word = words[at] as string;
    if (word === '+') {
      taken.push({ seq: told + 1, fence: told + 2 });
      told += 2;
    } else if (word === '~') {
      told += 1;
      taken.push({ seq: told, fence: 0 });
    } else taken.push(word === '-' ? null : readTaken(word, base));
  }
  return taken;
}

function readTaken(word: string, base: number): Taken {
  const [seq = 0, fence] = word.split(',').map(Number);
  return { seq: base + seq, fence: fence === undefined ? 0 : base + fence };
}

export function readBeat({ news, notes, words }: Reply, { view }: BeatRequest, keyOf: KeyOf): BeatAnswer {
  const [kind, era, quarantined, more, ...lost] = words;
  if (kind !== 'alive') return readRefusal(kind);
  return {
    kind,
    era: Number(era),
    quarantined: quarantined === '1',
    news: readNews(news, keyOf),
    lost: lost.filter((at) => at !== '').map((at) => view[Number(at)] as Grant),
    notes: notes === '' ? [] : (JSON.parse(notes) as RawNote[]).map((note) => readNote(note, keyOf)),
    more: more === '1',
  };
}

function readRefusal(kind: string | undefined): { kind: 'stale' } | { kind: 'dead' } | { kind: 'replaced' } {
  if (kind === 'stale' || kind === 'dead' || kind === 'replaced') return { kind };
  throw unknownAnswer();
}

function unknownAnswer(): Error {
  return new Error('PostgreSQL: a step gave an answer that this version does not know.');
}

type RawGrant = [key: string, seq: number, fence: number];
type RawAdoption = [...grant: RawGrant, id: string | null, body: string, attempt: number];
type RawParked = [key: string, id: string | null, attempts: number, error: string | null];
type RawNote = [at: number, key: string, seq: number, note: string];
type RawNews = [RawGrant[], RawAdoption[], RawParked[]];

const NO_NEWS: News = { grants: [], adopted: [], parked: [] };

function readNews(text: string, keyOf: KeyOf): News {
  if (text === '') return NO_NEWS;
  const [grants, adopted, parked] = JSON.parse(text) as RawNews;
  return {
    grants: grants.map(([key, seq, fence]): Grant => ({ key: keyOf(key), seq, fence })),
    adopted: adopted.map(
      ([key, seq, fence, id, body, attempt]): Adoption => ({
        key: keyOf(key),
        seq,
        fence,
        id: fromWireOrNull(id),
        body: fromWire(body),
        attempt,
      }),
    ),
    parked: parked.map(
      ([key, id, attempts, error]): ParkedNotice => ({
        key: keyOf(key),
        id: fromWireOrNull(id),
        attempts,
        error: fromWireOrNull(error),
      }),
    ),
  };
}

/** The keys that may stand for longer ones. */
export function keysIn({ news, notes }: Reply): string[] {
  const [grants, adopted, parked] = news === '' ? [[], [], []] : (JSON.parse(news) as RawNews);
  const told = notes === '' ? [] : (JSON.parse(notes) as RawNote[]);
  return [...[...grants, ...adopted, ...parked].map(([key]) => key), ...told.map(([, key]) => key)];
}

function readNote([at, key, seq, note]: RawNote, keyOf: KeyOf): Note {
  return { at, key: keyOf(key), seq, note: fromWire(note) };
}

export function readWaiting(text: string | null): Waiting[] {
  const rows = JSON.parse(text ?? '[]') as [number, string | null, string, number][];
  return rows.map(([seq, id, body, attempt]) => ({ seq, id: fromWireOrNull(id), body: fromWire(body), attempt }));
}

/** `keyOf` gives undefined where it does not know: then it is but a hint to look. */
export function readPush(
  [, kind, epoch, era, seq, fence, key]: RawPush,
  keyOf: (short: string) => string | undefined,
): Push {
  if (kind !== 'grant') return { kind, epoch };
  const found = keyOf(key ?? '');
  if (found === undefined || era === undefined || seq === undefined || fence === undefined)
    return { kind: 'look', epoch };
  return { kind, epoch, era, key: found, seq, fence };
}
