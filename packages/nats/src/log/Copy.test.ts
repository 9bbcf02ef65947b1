import { type ApplyAnswer, FORMAT, type JoinAnswer } from '@botmesh/core/spi';
import { expect, test } from 'vitest';
import { Copy, type Outcome } from './Copy.js';
import { type Birth, type Claim, encode, LOG_VERSION, type StepKind } from './entry.js';

const MESH = { leaseMs: 12_000, shards: 1, format: FORMAT };
const START_US = 1_750_000_000_000_000;

interface Said {
  readonly kind?: StepKind | 'note';
  readonly request?: unknown;
  readonly server?: string | null;
  readonly claim?: Claim | null;
  readonly most?: number;
}

/** A log in memory, and copies that read it. */
class Bench {
  readonly messages: { seq: number; atUs: number; subject: string; data: Uint8Array }[] = [];
  #ids = 0;

  put(subject: string, data: Uint8Array): void {
    const seq = this.messages.length + 1;
    this.messages.push({ seq, atUs: START_US + seq * 1000, subject, data });
  }

  born(birth: Partial<Birth> = {}): void {
    const all: Birth = { version: LOG_VERSION, id: 'log', server: 's1', toldMs: null, isFresh: true, ...birth };
    this.put('born', new TextEncoder().encode(JSON.stringify(all)));
  }

  say({ claim = null, kind = 'note', most = 1e6, request = null, server = 's1' }: Said): string {
    const id = String(++this.#ids);
    for (const data of encode({ kind, id, server, claim, toldMs: null }, request, most)) this.put('log', data);
    return id;
  }

  join(name: string, said: Said = {}): void {
    const request = { replicaId: name, instance: name, firstEpoch: 0, seen: 0, adopts: true, config: MESH };
    this.say({ kind: 'join', request, ...said });
  }
}

/** The last outcome, and all. */
function read(copy: Copy, bench: Bench): { last: Outcome | undefined; all: Outcome[] } {
  const all = bench.messages.slice(copy.applied).flatMap((message) => copy.apply(message) ?? []);
  return { all, last: all.at(-1) };
}

function joinedBench(): { bench: Bench; copy: Copy; epoch: number } {
  const bench = new Bench();
  bench.born();
  bench.join('a');
  const copy = new Copy();
  const { last } = read(copy, bench);
  return { bench, copy, epoch: (last!.answer as JoinAnswer & { epoch: number }).epoch };
}

const reserve = (epoch: number, batch: number, key: string): Said => ({
  kind: 'apply',
  request: { epoch, instance: 'a', batch, ops: [{ op: 'reserve', key }] },
});

test('copies that read the same log from the beginning, or from a snapshot on, are the same', () => {
  const { bench, copy, epoch } = joinedBench();
  for (let batch = 1; batch < 20; batch++) bench.say(reserve(epoch, batch, `k${batch % 3}`));
  read(copy, bench);
  const snapshot = Copy.fromSnapshot(copy.toSnapshot())!;
  for (let batch = 20; batch < 40; batch++) bench.say(reserve(epoch, batch, `k${batch % 3}`));
  bench.say({ server: 's2' });
  bench.say({ claim: { era: 1, seq: 5, at: 0 } });
  const whole = new Copy();

  for (const one of [copy, snapshot, whole]) read(one, bench);

  expect(snapshot.toSnapshot()).toBe(copy.toSnapshot());
  expect(whole.toSnapshot()).toBe(copy.toSnapshot());
  expect(copy.record.queues.get('k0')?.length).toBe(13);
});

test('a step in many parts is made with the last of them, also over a snapshot between them', () => {
  const { bench, copy, epoch } = joinedBench();
  bench.say({ ...reserve(epoch, 1, 'x'.repeat(500)), most: 100 });
  const after = bench.messages.length;
  const early = new Copy();
  for (const message of bench.messages.slice(0, after - 1)) early.apply(message);

  const outcomes = [read(copy, bench), read(Copy.fromSnapshot(early.toSnapshot())!, bench)];

  for (const { all, last } of outcomes) {
    expect(all).toHaveLength(1);
    expect((last!.answer as ApplyAnswer).kind).toBe('applied');
  }
});

test('what is no message of the log, and what cannot be done, changes nothing and stops nobody', () => {
  const { bench, copy, epoch } = joinedBench();
  const before = JSON.stringify([...copy.record.queues]);
  bench.put('log', new TextEncoder().encode('hello'));
  bench.put('log', new TextEncoder().encode('[1]\n{}'));
  bench.put('log', new Uint8Array());
  bench.put('born', new TextEncoder().encode('nothing'));
  bench.put('mark', new TextEncoder().encode('null'));
  bench.say({ kind: 'apply', request: null });
  bench.say({ kind: 'hop' as StepKind, request: {} });
  const { all } = read(copy, bench);

  expect(all.map(({ failure }) => failure?.kind)).toEqual(['broken', 'broken']);
  expect(JSON.stringify([...copy.record.queues])).toBe(before);
  bench.say(reserve(epoch, 1, 'k'));
  expect((read(copy, bench).last!.answer as ApplyAnswer).kind).toBe('applied');
});

test('another server process is a new era, in which nothing is granted; one that comes back is none', () => {
  const { bench, copy, epoch } = joinedBench();
  const { era } = copy.record;
  bench.say(reserve(epoch, 1, 'k'));
  bench.say({ ...reserve(epoch, 2, 'j'), server: 's2' });
  const { all } = read(copy, bench);

  expect(all.map(({ answer }) => (answer as { results: { fence: number }[] }).results[0]!.fence > 0)).toEqual([
    true,
    false,
  ]);
  const second = copy.record.era;
  expect(second).not.toBe(era);
  bench.say({ ...reserve(epoch, 3, 'i'), server: 's1' });
  bench.say({ ...reserve(epoch, 4, 'i'), server: null });
  read(copy, bench);
  expect(copy.record.era).toBe(second);
});

test('a sender that has read what is not in the log begins a new era, once for each era', () => {
  const { bench, copy, epoch } = joinedBench();
  const { era } = copy.record;
  const known = { era, seq: 2, at: START_US + 2000 };
  bench.say({ ...reserve(epoch, 1, 'k'), claim: known });
  read(copy, bench);
  expect(copy.record.era).toBe(era);

  bench.say({ ...reserve(epoch, 2, 'k'), claim: { ...known, at: START_US + 1 } });
  read(copy, bench);
  const second = copy.record.era;
  expect(second).not.toBe(era);

  bench.say({ ...reserve(epoch, 3, 'k'), claim: { era, seq: 900, at: START_US } });
  read(copy, bench);
  expect(copy.record.era).toBe(second);

  bench.say({ ...reserve(epoch, 4, 'k'), claim: { era: second, seq: 900, at: START_US } });
  read(copy, bench);
  expect(copy.record.era).not.toBe(second);
});

test('a birth ends all that was before it', () => {
  const { bench, copy, epoch } = joinedBench();
  bench.born({ id: 'other', isFresh: false });
  bench.say(reserve(epoch, 1, 'k'));

  const { last } = read(copy, bench);

  expect(last?.answer).toEqual({ kind: 'dead' });
});

/** As a replica of another version would speak. */
function ofVersion(bench: Bench, version: number, atUs: number): void {
  bench.join(`v${version}`);
  const message = bench.messages.at(-1)!;
  const text = new TextDecoder().decode(message.data);
  message.data = new TextEncoder().encode(text.replace(/^\[\d+,/, `[${version},`));
  message.atUs = atUs;
}

test('a step of another version is refused while the log is in use, and a copy ends where a later version takes over', () => {
  const { bench, copy } = joinedBench();
  const later = LOG_VERSION + 1;
  ofVersion(bench, later, START_US + 5e6);
  const { last } = read(copy, bench);

  expect(last?.failure).toEqual({ kind: 'version', version: LOG_VERSION });
  expect(copy.record.live.size).toBe(1);

  ofVersion(bench, later, START_US + 60e6);
  read(copy, bench);
  expect(copy.version).toBe(later);
  expect(Copy.fromSnapshot(copy.toSnapshot())).toBeUndefined();
});
