import { createHash } from 'node:crypto';
import { emptyRecord, FORMAT, type Op, type Outgoing, recordToJson, transitions } from '@botmesh/core/spi';
import { seededRandom } from '@botmesh/core/testing';
import { expect, test } from 'vitest';
import { LOG_VERSION } from './entry.js';

/** What the steps of each version of the log come to: of the list below, all answers, pushes and records. */
const KNOWN: Readonly<Record<number, string>> = {
  1: 'f8c89fb5cbba1df59a95bf7b94ce01498905bc2891b5649f6cd6562bde752ddc',
};

const START_MS = 1_750_000_000_000;
const CONFIG = { format: FORMAT, leaseMs: 12_000, shards: 1 };

interface Client {
  readonly instance: string;
  epoch: number;
  era: number;
  batch: number;
  beat: number;
  tickets: { key: string; seq: number; fence: number }[];
}

/** Replicas that share a log must make the same of each step. */
test('the steps come to what they came to when the version of the log was given', () => {
  const random = seededRandom(7);
  const pick = <T>(list: readonly T[]): T => list[Math.floor(random() * list.length)]!;
  const record = emptyRecord();
  const hash = createHash('sha256');
  let nowMs = START_MS;
  let run = 1;
  let starts = 0;
  const join = (): Client => {
    const instance = `i${++starts}`;
    const who = { replicaId: `r${starts % 4}`, instance, firstEpoch: 0, seen: 0, adopts: random() < 0.7 };
    const answer = step((moment, pushes) => transitions.join(record, { ...who, config: CONFIG }, moment, pushes));
    if (answer.kind !== 'joined') throw new Error(answer.kind);
    return { instance, epoch: answer.epoch, era: answer.era, batch: 0, beat: 0, tickets: [] };
  };
  const step = <T>(make: (moment: transitions.Moment, pushes: Outgoing[]) => T): T => {
    const pushes: Outgoing[] = [];
    const answer = make({ nowMs, run: String(run) }, pushes);
    hash.update(JSON.stringify([answer, pushes]) ?? '');
    return answer;
  };
  const clients = [join(), join(), join()];

  for (let n = 0; n < 4000; n++) {
    nowMs += Math.floor(random() * 900) - (random() < 0.02 ? 3000 : 0);
    if (random() < 0.004) run += 1;
    const at = Math.floor(random() * clients.length);
    const client = clients[at]!;
    const { epoch, instance } = client;
    const key = `k${Math.floor(random() * 5)}`;
    if (random() < 0.02) {
      if (random() < 0.5) step((moment, pushes) => transitions.leave(record, { epoch, instance }, moment, pushes));
      clients[at] = join();
    } else if (random() < 0.4) {
      const beat = ++client.beat;
      const told = { seen: 0, adopts: true, answered: client.batch, heard: 0, watchedMs: random() * 20_000 };
      const request = { epoch, instance, beat, era: client.era, view: client.tickets, ...told };
      const answer = step((moment, pushes) => transitions.beat(record, request, moment, pushes));
      if (answer.kind !== 'alive') continue;
      client.era = answer.era;
      for (const { fence, seq } of answer.news.grants)
        for (const one of client.tickets) if (one.seq === seq) one.fence = fence;
      for (const adopted of answer.news.adopted) client.tickets.push(adopted);
      client.tickets = client.tickets.filter(({ seq }) => !answer.lost.some((lost) => lost.seq === seq));
    } else if (random() < 0.1) {
      const request = { name: key, costMs: 100, burstMs: 200, pauseMs: random() < 0.2 ? 500 : 0 };
      step((moment) => transitions.pace(record, request, moment));
    } else {
      const message = { id: `m${n % 60}`, body: 'text', maxAttempts: 2, dedupeMs: 60_000 };
      const held = client.tickets.length > 0 ? pick(client.tickets) : undefined;
      const parked = [...record.parked.values()].at(0);
      const ops: Op[] = [
        { op: 'reserve', key },
        { op: 'try', key },
        { op: 'accept', key, ...message },
        { op: 'tell', key, note: 'note' },
      ];
      if (held !== undefined) {
        const how = pick(['done', 'done', 'done', 'return', 'pass', 'withdraw'] as const);
        ops.push(...Array.from({ length: 4 }, (): Op => ({ op: 'release', key: held.key, seq: held.seq, how })));
      }
      if (parked !== undefined)
        ops.push({ op: 'replay', key: parked.key, seq: parked.seq, maxAttempts: 2, dedupeMs: 0 });
      const op = pick(ops);
      const request = { epoch, instance, batch: ++client.batch, ops: [op] };
      const answer = step((moment, pushes) => transitions.apply(record, request, moment, pushes));
      if (answer.kind !== 'applied') continue;
      const [taken] = answer.results;
      if (op.op === 'release') client.tickets = client.tickets.filter(({ seq }) => seq !== op.seq);
      else if (taken && ['reserve', 'try', 'accept'].includes(op.op)) client.tickets.push({ key: op.key, ...taken });
    }
  }
  hash.update(recordToJson(record));

  expect(
    hash.digest('hex'),
    'Steps do something else now. Put the new sum here; if the version was released, under the next LOG_VERSION, with a changeset that says that all replicas on NATS have to be stopped for it.',
  ).toBe(KNOWN[LOG_VERSION]);
});
