import { timing } from '../coordination/timing.js';
import { assertEqual } from './assertions.js';
import { joined, LEASE_MS, type StoreClient } from './StoreClient.js';
import type { StoreFact } from './store-fact.js';
import type { StoreLab } from './store-lab.js';

const anyTime = (show: (lab: StoreLab) => Promise<void>): StoreFact => ({ needs: [], show });
const inTime = (show: (lab: StoreLab) => Promise<void>): StoreFact => ({ needs: ['moveClock'], show });

const HOUR_MS = 3_600_000;

/** A place in `key` with a message. */
async function message(client: StoreClient, key: string, id: string, maxAttempts = 5): Promise<number> {
  return (await client.accept(key, id, { maxAttempts }))?.seq ?? 0;
}

/** A message of `client`, which adopts, that failed its only attempt. */
async function parked(client: StoreClient, key: string, id: string, error?: string): Promise<number> {
  const seq = await message(client, key, id, 1);
  await client.release(key, seq, 'return', error === undefined ? {} : { error });
  return seq;
}

async function tell(client: StoreClient, key: string, note: string): Promise<unknown> {
  return (await client.apply({ op: 'tell', key, note })).results[0];
}

async function reinstate(client: StoreClient, op: 'replay' | 'drop', key: string, seq: number): Promise<unknown> {
  const more = op === 'replay' ? { op, maxAttempts: 2, dedupeMs: 1000 } : { op };
  return (await client.apply({ ...more, key, seq })).results[0] ?? null;
}

function kinds(pushes: readonly { readonly kind: string }[]): string[] {
  return pushes.map(({ kind }) => kind);
}

const FINISHING: Record<string, StoreFact> = {
  'a message passed on goes to another replica, in its place, and is not counted as tried': anyTime(async (lab) => {
    const a = await joined(lab, 'a', { adopts: true });
    const b = await joined(lab, 'b', { adopts: true });
    await b.beat();
    const seq = await message(a, 'k', 'm');
    const later = await a.reserve('k');

    const passed = await a.release('k', seq, 'pass');
    const [adopted] = (await b.beat()).news.adopted;

    assertEqual(passed.news, { grants: [], adopted: [], parked: [] });
    assertEqual([adopted?.seq, adopted?.attempt], [seq, 1]);
    await b.release('k', seq);
    assertEqual(
      (await a.heard()).map((push) => push.kind === 'grant' && push.seq),
      [later.seq],
    );
  }),

  'a message passed on where nobody else adopts waits for whoever comes first': anyTime(async (lab) => {
    const a = await joined(lab, 'a', { adopts: true });
    const seq = await message(a, 'k', 'm');

    const { news } = await a.release('k', seq, 'pass');

    assertEqual(news.adopted, []);
    assertEqual(
      (await a.beat()).news.adopted.map((adopted) => [adopted.seq, adopted.attempt]),
      [[seq, 1]],
    );
  }),

  'a message passed on before it was granted comes to its turn with whoever adopts': anyTime(async (lab) => {
    const [a, b] = [await joined(lab, 'a'), await joined(lab, 'b', { adopts: true })];
    await b.beat();
    const first = await message(a, 'k', 'm1');
    const second = await message(a, 'k', 'm2');

    await a.release('k', second, 'pass');
    await a.release('k', first);

    assertEqual(
      (await b.beat()).news.adopted.map(({ seq, attempt }) => [seq, attempt]),
      [[second, 1]],
    );
  }),

  'a plain ticket passed on frees its place': anyTime(async (lab) => {
    const a = await joined(lab, 'a');
    const first = await a.reserve('k');
    const second = await a.reserve('k');

    const { news } = await a.release('k', first.seq, 'pass');

    assertEqual(
      news.grants.map((grant) => grant.seq),
      [second.seq],
    );
  }),

  'a parked message shows the last reason that was given for returning it': anyTime(async (lab) => {
    const a = await joined(lab, 'a', { adopts: true });
    const seq = await message(a, 'k', 'm', 3);

    await a.release('k', seq, 'return', { error: 'first' });
    await a.release('k', seq, 'return', { error: 'second' });
    const { news } = await a.release('k', seq, 'return');

    assertEqual(news.parked, [{ key: 'k', id: 'm', attempts: 3, error: 'second' }]);
    assertEqual(
      (await lab.store.inspect()).parked.map(({ error }) => error),
      ['second'],
    );
  }),

  'messages behind a turn end with it in one step, whoever took them in, and are done': anyTime(async (lab) => {
    const [a, b] = [await joined(lab, 'a'), await joined(lab, 'b')];
    const head = await a.accept('k', 'm1');
    const own = await message(a, 'k', 'm2');
    const others = await message(b, 'k', 'm3');
    const rest = await message(b, 'k', 'm4');

    const { results, news } = await a.release('k', head?.seq ?? 0, 'done', { also: [others, own] });

    assertEqual(results, [head]);
    assertEqual(news, { grants: [], adopted: [], parked: [] });
    const pushes = await b.heard();
    assertEqual(kinds(pushes), ['look', 'grant']);
    const { queues, remembered } = await lab.store.inspect();
    assertEqual([queues.length, queues[0]?.head.seq, queues[0]?.waiting, remembered], [1, rest, 0, 3]);
    assertEqual([await b.accept('k', 'm2'), await b.accept('k', 'm3')], [null, null]);
    const view = [others, rest].map((seq) => ({ key: 'k', seq, fence: 0 }));
    assertEqual(
      (await b.beat(view)).lost.map(({ seq }) => seq),
      [others],
    );
  }),

  'messages that nobody owns end with the turn before them too': anyTime(async (lab) => {
    const [a, b] = [await joined(lab, 'a'), await joined(lab, 'b')];
    const head = await message(a, 'k', 'm1');
    const left = await message(b, 'k', 'm2');
    await b.leave();

    await a.release('k', head, 'done', { also: [left] });

    const { queues, remembered } = await lab.store.inspect();
    assertEqual([queues, remembered], [[], 2]);
  }),

  'only the holder can finish messages that wait behind it': anyTime(async (lab) => {
    const [a, b] = [await joined(lab, 'a'), await joined(lab, 'b')];
    const head = await message(a, 'k', 'm1');
    const waiting = await message(b, 'k', 'm2');
    const last = await message(a, 'k', 'm3');
    const elsewhere = await a.accept('j', 'm4');
    await b.heard();

    // Not at the head: it does no more than free its own place. Of another key. Not its own.
    const first = await b.release('k', waiting, 'return', { also: [last] });
    const second = await a.release('j', elsewhere?.seq ?? 0, 'done', { also: [last, head] });
    const third = await b.release('k', head, 'done', { also: [last] });

    assertEqual([first.results, second.results, third.results], [[{ seq: waiting, fence: 0 }], [elsewhere], [null]]);
    const [queue, ...more] = (await lab.store.inspect()).queues;
    assertEqual([queue?.head.seq, queue?.waiting, more], [head, 2, []]);
  }),

  'plain tickets, unknown ones and the holder’s own do not end as messages behind a turn': anyTime(async (lab) => {
    const [a, b] = [await joined(lab, 'a'), await joined(lab, 'b', { adopts: true })];
    await b.beat();
    const head = await message(a, 'k', 'm1');
    const plain = await b.reserve('k');

    await a.release('k', head, 'pass', { also: [plain.seq, 5, head] });

    const [queue] = (await lab.store.inspect()).queues;
    assertEqual([queue?.head.seq, queue?.waiting], [head, 1]);
  }),

  'a release tells whether the ticket was the caller’s, and whether it held its key': anyTime(async (lab) => {
    const [a, b] = [await joined(lab, 'a'), await joined(lab, 'b')];
    const held = await a.reserve('k');
    const waiting = await a.reserve('k');
    const elsewhere = await a.accept('j', 'm');

    const foreign = await b.release('k', held.seq);
    const { results } = await a.apply(
      { op: 'release', key: 'k', seq: waiting.seq, how: 'done' },
      { op: 'release', key: 'k', seq: held.seq, how: 'done' },
      { op: 'release', key: 'j', seq: elsewhere?.seq ?? 0, how: 'return', error: 'a reason' },
      { op: 'release', key: 'k', seq: held.seq, how: 'done' },
    );

    assertEqual([foreign.results, results], [[null], [{ seq: waiting.seq, fence: 0 }, held, elsewhere, null]]);
  }),

  'what a join parks is told in its answer, once': anyTime(async (lab) => {
    const a = await joined(lab, 'a', { adopts: true });
    const seq = await message(a, 'k', 'm', 1);
    const { seen } = a;

    // It counts its own epoch as over, and the store does not.
    const answer = await a.join();
    const again = await a.join({ seen });

    const told = [answer, again].map((each) => (each.kind === 'joined' ? each.parked : each));
    assertEqual(told, [[{ key: 'k', id: 'm', attempts: 1, error: null }], []]);
    assertEqual(
      (await lab.store.inspect()).parked.map((each) => each.seq),
      [seq],
    );
  }),

  'a release made again finishes nothing twice': anyTime(async (lab) => {
    const a = await joined(lab, 'a');
    const head = await message(a, 'k', 'm1');
    const own = await message(a, 'k', 'm2');

    const first = await a.release('k', head, 'done', { also: [own] });
    const again = await a.applyAs(a.batch, { op: 'release', key: 'k', seq: head, how: 'done', also: [own] });

    assertEqual(again, first);
  }),
};

const LOOKING: Record<string, StoreFact> = {
  'a look at what waits shows messages in order, and changes nothing': anyTime(async (lab) => {
    const [a, b] = [await joined(lab, 'a'), await joined(lab, 'b')];
    const head = await message(a, 'k', 'm1');
    await b.reserve('k');
    const second = await message(b, 'k', 'm2');
    const third = await a.accept('k', null);
    await message(a, 'j', 'm3');
    const before = (await lab.store.inspect()).queues;

    const all = await lab.store.waiting({ key: 'k', seq: head, limit: 10 });
    const one = await lab.store.waiting({ key: 'k', seq: head, limit: 1 });

    assertEqual(all, [
      { seq: second, id: 'm2', body: 'body of m2', attempt: 1 },
      { seq: third?.seq, id: null, body: 'body of nobody', attempt: 1 },
    ]);
    assertEqual(one, all.slice(0, 1));
    assertEqual((await lab.store.inspect()).queues, before);
    assertEqual([kinds(await a.heard()), kinds(await b.heard())], [[], []]);
  }),

  'nothing waits behind a ticket that is not the head, nor for nothing': anyTime(async (lab) => {
    const a = await joined(lab, 'a');
    const head = await message(a, 'k', 'm1');
    const second = await message(a, 'k', 'm2');
    await message(a, 'k', 'm3');

    const looks = [
      { key: 'k', seq: second, limit: 10 },
      { key: 'j', seq: head, limit: 10 },
      { key: 'k', seq: head, limit: 0 },
    ];

    for (const look of looks) assertEqual(await lab.store.waiting(look), []);
  }),

  'no look shows more messages than its share': anyTime(async (lab) => {
    const a = await joined(lab, 'a');
    const head = await message(a, 'k', 'm');
    const ops = Array.from({ length: 300 }, () => {
      return { op: 'accept', key: 'k', id: null, body: '', maxAttempts: 5, dedupeMs: 0 } as const;
    });
    const { results } = await a.apply(...ops);

    const found = await lab.store.waiting({ key: 'k', seq: head, limit: 1000 });

    assertEqual(
      found.map(({ seq }) => seq),
      results.slice(0, 256).map((taken) => taken?.seq),
    );
  }),
};

const TELLING: Record<string, StoreFact> = {
  'a note reaches the holder by its next heartbeat, and again until it is heard of': anyTime(async (lab) => {
    const [a, b] = [await joined(lab, 'a'), await joined(lab, 'b')];
    const turn = await a.reserve('k');
    const view = [{ key: 'k', ...turn }];

    assertEqual(await tell(b, 'k', 'stop'), turn);
    assertEqual(kinds(await a.heard()), ['look']);
    const first = await a.beat(view);
    const again = await a.beat(view, { heard: 0 });
    const heard = await a.beat(view);

    assertEqual(
      first.notes.map(({ key, seq, note }) => ({ key, seq, note })),
      [{ key: 'k', seq: turn.seq, note: 'stop' }],
    );
    assertEqual([again.notes, heard.notes], [first.notes, []]);
  }),

  'a note that its own holder leaves comes the same way': anyTime(async (lab) => {
    const a = await joined(lab, 'a');
    const turn = await a.reserve('k');

    await tell(a, 'k', 'one');
    await tell(a, 'k', 'two');

    assertEqual(kinds(await a.heard()), ['look', 'look']);
    const { notes } = await a.beat([{ key: 'k', ...turn }]);
    assertEqual(
      notes.map(({ note }) => note),
      ['one', 'two'],
    );
  }),

  'a key that nobody holds is told nothing': anyTime(async (lab) => {
    const [a, b] = [await joined(lab, 'a'), await joined(lab, 'b')];
    await message(a, 'k', 'm');
    await a.leave();

    assertEqual([await tell(b, 'k', 'to an orphan'), await tell(b, 'j', 'to nobody')], [null, null]);
  }),

  'a note is for the turn that it was left for, not for a later one of the same ticket': anyTime(async (lab) => {
    const [a, b] = [await joined(lab, 'a', { adopts: true }), await joined(lab, 'b')];
    const seq = await message(a, 'k', 'm');
    await tell(b, 'k', 'for the first attempt');
    const { news } = await a.release('k', seq, 'return');
    await tell(b, 'k', 'for the second attempt');
    const fence = news.adopted[0]?.fence ?? 0;

    const { notes } = await a.beat([{ key: 'k', seq, fence }]);

    assertEqual(
      notes.map(({ note }) => note),
      ['for the second attempt'],
    );
  }),

  'a note for a turn that is over is forgotten': anyTime(async (lab) => {
    const [a, b] = [await joined(lab, 'a'), await joined(lab, 'b')];
    const turn = await a.reserve('k');
    await tell(b, 'k', 'late');

    await a.release('k', turn.seq);

    assertEqual((await a.beat()).notes, []);
  }),

  'no heartbeat brings more notes than its share; the rest follows, and too many are refused': anyTime(async (lab) => {
    const [a, b] = [await joined(lab, 'a'), await joined(lab, 'b')];
    const turn = await a.reserve('k');
    const view = [{ key: 'k', ...turn }];
    const notes = Array.from({ length: 256 }, (_, n) => ({ op: 'tell', key: 'k', note: `${n}` }) as const);
    await b.apply(...notes);
    assertEqual(await tell(b, 'k', 'one too many'), null);

    const heard: string[] = [];
    for (let n = 0; n < 4; n++) {
      const answer = await a.beat(view);
      heard.push(...answer.notes.map(({ note }) => note));
      assertEqual([answer.notes.length, answer.more], [64, n < 3]);
    }

    assertEqual(
      heard,
      notes.map(({ note }) => note),
    );
    await a.beat(view);
    assertEqual(await tell(b, 'k', 'room again'), turn);
  }),
};

const PARKED: Record<string, StoreFact> = {
  'a parked message that is replayed runs again, as new and behind all that wait': anyTime(async (lab) => {
    const a = await joined(lab, 'a', { adopts: true });
    const seq = await parked(a, 'k', 'm', 'why');
    const turn = await a.reserve('k');

    const place = (await reinstate(a, 'replay', 'k', seq)) as { seq: number; fence: number };
    const [replayed] = (await a.release('k', turn.seq)).news.adopted;

    assertEqual([place.fence, replayed?.seq], [0, place.seq]);
    assertEqual([replayed?.id, replayed?.body, replayed?.attempt], ['m', 'body of m', 1]);
    assertEqual((await lab.store.inspect()).parked, []);
    assertEqual(await a.accept('k', 'm'), null);
    // Its limits are those that the replay gave it.
    await a.release('k', place.seq, 'return');
    const { news } = await a.release('k', place.seq, 'return');
    assertEqual(news.parked, [{ key: 'k', id: 'm', attempts: 2, error: null }]);
  }),

  'a message replayed to an idle key is handed over in the same step': anyTime(async (lab) => {
    const a = await joined(lab, 'a', { adopts: true });
    const seq = await parked(a, 'k', 'm');

    const { news, results } = await a.apply({ op: 'replay', key: 'k', seq, maxAttempts: 5, dedupeMs: 0 });

    assertEqual(
      news.adopted.map((adopted) => adopted.seq),
      [results[0]?.seq],
    );
  }),

  'a parked message that is dropped frees its id': anyTime(async (lab) => {
    const a = await joined(lab, 'a', { adopts: true });
    const seq = await parked(a, 'k', 'm');

    assertEqual(await reinstate(a, 'drop', 'k', seq), { seq, fence: 0 });

    assertEqual((await lab.store.inspect()).parked, []);
    assertEqual((await a.accept('k', 'm')) === null, false);
  }),

  'what is not parked, or under another key, is neither replayed nor dropped': anyTime(async (lab) => {
    const a = await joined(lab, 'a', { adopts: true });
    const seq = await parked(a, 'k', 'm');
    const waiting = await message(a, 'j', 'm');

    for (const op of ['replay', 'drop'] as const) {
      assertEqual([await reinstate(a, op, 'j', seq), await reinstate(a, op, 'j', waiting)], [null, null]);
    }

    assertEqual((await lab.store.inspect()).parked.length, 1);
    await reinstate(a, 'replay', 'k', seq);
    assertEqual([await reinstate(a, 'replay', 'k', seq), await reinstate(a, 'drop', 'k', seq)], [null, null]);
  }),
};

const PACES: Record<string, StoreFact> = {
  'a shared pace gives its burst at once, and then slot after slot': inTime(async (lab) => {
    const next = async () => (await lab.store.pace({ name: 'p', costMs: 2000, burstMs: 4000, pauseMs: 0 })).waitMs;
    const waits: number[] = [];
    for (let n = 0; n < 5; n++) waits.push(await next());
    await lab.moveClock?.(3000);
    const later = await next();
    await lab.moveClock?.(60_000);

    assertNear(waits, [0, 0, 0, 2000, 4000]);
    assertNear([later, await next()], [3000, 0]);
  }),

  'paces of different names do not wait for each other': anyTime(async (lab) => {
    for (const name of ['p', 'q', 'ß {1}*', '']) {
      assertEqual(await lab.store.pace({ name, costMs: 60_000, burstMs: 0, pauseMs: 0 }), { waitMs: 0 });
    }
  }),

  'a pause holds everybody up for its time, and takes no slot': inTime(async (lab) => {
    const pace = { name: 'p', costMs: 1000, burstMs: 5000, pauseMs: 0 };
    const { waitMs: paused } = await lab.store.pace({ ...pace, pauseMs: 20_000 });
    const { waitMs: first } = await lab.store.pace(pace);
    const { waitMs: second } = await lab.store.pace(pace);
    await lab.moveClock?.(30_000);

    assertNear([paused, first, second], [20_000, 20_000, 21_000]);
    assertNear([(await lab.store.pace(pace)).waitMs], [0]);
  }),

  'a pause of more than an hour is one of an hour': inTime(async (lab) => {
    const pace = { name: 'p', costMs: 1000, burstMs: 0, pauseMs: 0 };

    const { waitMs: paused } = await lab.store.pace({ ...pace, pauseMs: 24 * HOUR_MS });
    const { waitMs: next } = await lab.store.pace(pace);

    assertNear([paused, next], [HOUR_MS, HOUR_MS]);
  }),

  'a clock set back holds no pace up for more than an hour': inTime(async (lab) => {
    const pace = { name: 'p', costMs: 1000, burstMs: 0, pauseMs: 0 };
    await lab.store.pace(pace);

    await lab.moveClock?.(-3 * HOUR_MS);

    assertNear([(await lab.store.pace(pace)).waitMs], [HOUR_MS]);
  }),

  'paces whose slots are over are forgotten by heartbeats, others are not': inTime(async (lab) => {
    const a = await joined(lab, 'a');
    for (const name of ['p', 'q']) await lab.store.pace({ name, costMs: 1000, burstMs: 0, pauseMs: 0 });
    await lab.store.pace({ name: 'r', costMs: 60_000, burstMs: 0, pauseMs: 0 });
    await lab.moveClock?.(timing(LEASE_MS).beatMs);

    await a.beat();

    assertEqual((await lab.store.inspect()).paces, 1);
  }),
};

/** Equal but for the time that passes by itself meanwhile, where the lab's clock runs on. */
function assertNear(found: readonly number[], wanted: readonly number[]): void {
  const isNear = found.every((ms, at) => Math.abs(ms - (wanted[at] ?? Number.NaN)) <= 500);
  if (!isNear || found.length !== wanted.length) assertEqual(found, wanted);
}

/** What a store does for the holder of a turn, and for whoever looks after messages. */
export const MAILROOM_FACTS: Readonly<Record<string, StoreFact>> = {
  ...FINISHING,
  ...LOOKING,
  ...TELLING,
  ...PARKED,
  ...PACES,
};
