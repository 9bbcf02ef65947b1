import { timing } from '../coordination/timing.js';
import { assertEqual } from './assertions.js';
import { beatOn, CONFIG, joined, LEASE_MS, StoreClient } from './StoreClient.js';
import type { StoreFact } from './store-fact.js';
import { MAILROOM_FACTS } from './store-facts-mailroom.js';
import { MESSAGE_FACTS } from './store-facts-messages.js';
import { SERVER_FACTS } from './store-facts-server.js';
import type { StoreLab } from './store-lab.js';

const anyTime = (show: (lab: StoreLab) => Promise<void>): StoreFact => ({ needs: [], show });
const inTime = (show: (lab: StoreLab) => Promise<void>): StoreFact => ({ needs: ['moveClock'], show });

const { gapMs, beatMs } = timing(LEASE_MS);

const FACTS: Record<string, StoreFact> = {
  // ── Joining and leaving ──────────────────────────────────────────────────────────────────────────────────────────

  'a repeated join gives the same epoch': anyTime(async (lab) => {
    const a = new StoreClient(lab, 'a');
    const first = await a.join();
    a.seen = 0; // The answer was lost.

    assertEqual(await a.join({ firstEpoch: 0 }), first);
  }),

  'every new join gives a greater epoch': anyTime(async (lab) => {
    const epochs: number[] = [];
    for (const replicaId of ['a', 'b', 'a', 'c']) epochs.push((await joined(lab, replicaId)).epoch);

    assertEqual(
      epochs,
      [...epochs].sort((x, y) => x - y),
    );
    assertEqual(new Set(epochs).size, 4);
  }),

  'a replica that counts its epoch as over and joins again gets a new one, whose batches start anew': anyTime(
    async (lab) => {
      const a = await joined(lab, 'a');
      await a.reserve('k');
      const former = a.epoch;

      await a.join();

      assertEqual(a.epoch > former, true);
      assertEqual((await a.reserve('k')).fence > 0, true);
      assertEqual((await lab.store.inspect()).replicas.length, 1);
    },
  ),

  'a join tells of a stamp that the store has not heard of, and no later stamp falls below it': anyTime(async (lab) => {
    const a = await joined(lab, 'a');
    const b = new StoreClient(lab, 'b');
    await b.join({ seen: a.epoch + 5000 });

    assertEqual(b.epoch > a.epoch + 5000, true);
    assertEqual((await a.reserve('k')).seq > b.epoch, true);
  }),

  'a stamp greater than any that can have been given is not believed': anyTime(async (lab) => {
    const a = await joined(lab, 'a');
    for (const seen of [2 ** 53 - 1, 2 ** 53 - 2, 2 ** 60]) {
      await new StoreClient(lab, 'b').join({ seen });
      await a.beat([], { seen });
    }

    const [first, second] = [await a.reserve('k'), await a.reserve('k')];

    assertEqual(first.seq > a.epoch && second.seq > first.seq && second.seq < 2 ** 52, true);
  }),

  'a clock far in the future gives no stamps that could not rise any more': inTime(async (lab) => {
    const a = await joined(lab, 'a');
    await lab.moveClock?.(300 * 365 * 86_400_000);
    const [first, second] = [await a.reserve('k'), await a.reserve('k')];

    assertEqual(first.seq > a.epoch && second.seq > first.seq && second.seq < 2 ** 52, true);
  }),

  'a mesh in use refuses another configuration, names its own and changes nothing': anyTime(async (lab) => {
    const a = await joined(lab, 'a');
    const b = new StoreClient(lab, 'a');

    for (const other of [{ leaseMs: 6000 }, { shards: 4 }, { format: 99 }]) {
      assertEqual(await b.join({ config: { ...CONFIG, ...other } }), { kind: 'refused', found: CONFIG });
    }

    assertEqual((await a.reserve('k')).fence > 0, true);
  }),

  'a mesh whose replicas are long gone takes a new configuration; who wakes up there is dead': inTime(async (lab) => {
    const a = await joined(lab, 'a');
    await a.reserve('k');
    await lab.moveClock?.(3.1 * LEASE_MS);
    const b = new StoreClient(lab, 'b');

    const answer = await b.join({ config: { ...CONFIG, leaseMs: 6000 } });

    assertEqual(answer.kind === 'joined' && answer.quarantined, true);
    assertEqual((await a.beatAnyhow()).kind, 'dead');
  }),

  'a mesh whose replicas are late by less keeps its configuration': inTime(async (lab) => {
    await joined(lab, 'a');
    await lab.moveClock?.(2.9 * LEASE_MS);
    const b = new StoreClient(lab, 'b');

    assertEqual((await b.join({ config: { ...CONFIG, leaseMs: 6000 } })).kind, 'refused');
  }),

  'leaving hands over at once, and can be repeated': anyTime(async (lab) => {
    const [a, b] = [await joined(lab, 'a'), await joined(lab, 'b')];
    await a.reserve('k');
    const { seq } = await b.reserve('k');

    await a.leave();
    await a.leave();

    const [push, ...more] = await b.heard();
    assertEqual([push?.kind, push?.kind === 'grant' && push.seq, more.length], ['grant', seq, 0]);
    assertEqual((await a.beatAnyhow()).kind, 'dead');
  }),

  'leaving as somebody else changes nothing': anyTime(async (lab) => {
    const a = await joined(lab, 'a');

    await lab.store.leave({ epoch: a.epoch, instance: 'another' });
    await lab.store.leave({ epoch: 12, instance: a.instance });

    assertEqual((await a.beatAnyhow()).kind, 'alive');
  }),

  'a newer start takes the replicaId: the older is refused in everything, and told so': anyTime(async (lab) => {
    const older = await joined(lab, 'a');
    const newer = await joined(lab, 'a');
    assertEqual((await older.beatAnyhow()).kind, 'alive');
    // Until it is heard of again, its join may be one that came late.
    await newer.beat();

    assertEqual((await older.beatAnyhow()).kind, 'replaced');
    assertEqual((await older.applyAs(1, { op: 'reserve', key: 'k' })).kind, 'replaced');
    assertEqual((await older.join()).kind, 'replaced');
    assertEqual(
      (await older.heard()).map((push) => push.kind),
      ['replaced'],
    );
    assertEqual((await newer.beatAnyhow()).kind, 'alive');
  }),

  'a start that was replaced before it heard the answer to its join does not take the name back': anyTime(
    async (lab) => {
      const older = await joined(lab, 'a');
      const newer = await joined(lab, 'a');
      await newer.beat();

      assertEqual(await older.join({ firstEpoch: 0, seen: 0 }), { kind: 'replaced' });
      assertEqual((await newer.beatAnyhow()).kind, 'alive');
    },
  ),

  'what a replaced replica holds stays its own until it leaves; what it waits for is skipped': anyTime(async (lab) => {
    const [older, b] = [await joined(lab, 'a'), await joined(lab, 'b')];
    await older.reserve('held');
    const held = await b.reserve('held');
    const first = await b.reserve('waited');
    await older.reserve('waited');
    await (await joined(lab, 'a')).beat();
    const third = await b.reserve('waited');
    await b.release('waited', first.seq);

    const view = [held, third].map(({ seq }, at) => ({ key: at === 0 ? 'held' : 'waited', seq, fence: 0 }));
    const whileItLives = (await b.beat(view)).news.grants.map((grant) => grant.seq);
    await older.leave();
    const afterwards = (await b.heard()).map((push) => push.kind === 'grant' && push.seq);

    assertEqual(whileItLives, [third.seq]);
    assertEqual(afterwards, [held.seq]);
    assertEqual((await lab.store.inspect()).queues.find(({ key }) => key === 'waited')?.head.seq, third.seq);
  }),

  'what a replaced replica holds is granted when its lease is over, at the latest': inTime(async (lab) => {
    const [older, b] = [await joined(lab, 'a'), await joined(lab, 'b')];
    await older.reserve('held');
    const { seq } = await b.reserve('held');
    await joined(lab, 'a');

    await beatOn(lab, [b], LEASE_MS + 2 * beatMs, () => [{ key: 'held', seq, fence: 0 }]);

    assertEqual((await lab.store.inspect()).queues[0]?.head.seq, seq);
  }),

  // ── Places and grants ────────────────────────────────────────────────────────────────────────────────────────────

  'an idle key is granted by its reservation, and a release leaves nothing behind': anyTime(async (lab) => {
    const a = await joined(lab, 'a');

    const { seq, fence } = await a.reserve('k');

    assertEqual(fence > 0, true);
    await a.release('k', seq);
    assertEqual((await lab.store.inspect()).queues, []);
  }),

  'places and fences rise, and the next place is granted in the step that frees the key': anyTime(async (lab) => {
    const [a, b] = [await joined(lab, 'a'), await joined(lab, 'b')];
    const first = await a.reserve('k');
    const second = await b.reserve('k');
    const third = await a.reserve('k');

    await a.release('k', first.seq);
    const [toB] = await b.heard();
    const answer = await b.release('k', second.seq);
    const [toA] = await a.heard();

    assertEqual([second.fence, third.fence], [0, 0]);
    assertEqual(first.seq < second.seq && second.seq < third.seq, true);
    assertEqual(toB?.kind === 'grant' && toB.seq === second.seq && toB.fence > first.fence, true);
    assertEqual(toA?.kind === 'grant' && toB?.kind === 'grant' && toA.fence > toB.fence, true);
    assertEqual(answer.news.grants, []);
  }),

  'a hand-over to the caller itself comes in the answer, and is not pushed': anyTime(async (lab) => {
    const a = await joined(lab, 'a');
    const first = await a.reserve('k');
    const second = await a.reserve('k');

    const answer = await a.release('k', first.seq);

    assertEqual(
      answer.news.grants.map(({ key, seq }) => [key, seq]),
      [['k', second.seq]],
    );
    assertEqual(await a.heard(), []);
  }),

  'a push goes to the replica that is granted, and to nobody else': anyTime(async (lab) => {
    const [a, b, c] = [await joined(lab, 'a'), await joined(lab, 'b'), await joined(lab, 'c')];
    const first = await a.reserve('k');
    await b.reserve('k');
    await c.reserve('k');

    await a.release('k', first.seq);

    assertEqual([(await a.heard()).length, (await b.heard()).length, (await c.heard()).length], [0, 1, 0]);
  }),

  'after its subscription ended a replica hears nothing': anyTime(async (lab) => {
    const [a, b] = [await joined(lab, 'a'), new StoreClient(lab, 'b')];
    const heard: unknown[] = [];
    const unsubscribe = await lab.store.subscribe(b.instance, (push) => heard.push(push));
    await b.join();
    const first = await a.reserve('k');
    await b.reserve('k');
    await unsubscribe();

    await a.release('k', first.seq);
    await lab.arrived?.();

    assertEqual(heard, []);
  }),

  'every heartbeat pings its own sender': anyTime(async (lab) => {
    const [a, b] = [await joined(lab, 'a'), await joined(lab, 'b')];

    await a.beat();
    await lab.arrived?.();

    assertEqual(a.pushes, [{ kind: 'ping', epoch: a.epoch }]);
    assertEqual(b.pushes, []);
  }),

  'operations of one batch run in order, and each gets its own result': anyTime(async (lab) => {
    const a = await joined(lab, 'a');

    const { results } = await a.apply(
      { op: 'reserve', key: 'x' },
      { op: 'reserve', key: 'x' },
      { op: 'try', key: 'x' },
      { op: 'try', key: 'y' },
      { op: 'release', key: 'x', seq: 1, how: 'done' },
    );

    assertEqual(
      results.map((result) => (result === null ? null : result.fence > 0)),
      [true, false, null, true, null],
    );
    assertEqual((results[0]?.seq ?? 0) < (results[1]?.seq ?? 0), true);
  }),

  'a try on a busy key leaves nothing behind': anyTime(async (lab) => {
    const [a, b] = [await joined(lab, 'a'), await joined(lab, 'b')];
    const { seq } = await a.reserve('k');

    assertEqual((await b.apply({ op: 'try', key: 'k' })).results, [null]);

    assertEqual((await lab.store.inspect()).queues[0]?.waiting, 0);
    await a.release('k', seq);
    assertEqual((await b.apply({ op: 'try', key: 'k' })).results[0] === null, false);
  }),

  'a release by anyone but the owner, of another key, or a second one changes nothing': anyTime(async (lab) => {
    const [a, b] = [await joined(lab, 'a'), await joined(lab, 'b')];
    const held = await a.reserve('k');
    const next = await b.reserve('k');

    await b.release('k', held.seq);
    await a.release('other', held.seq);
    assertEqual((await lab.store.inspect()).queues[0]?.head.seq, held.seq);
    await a.release('k', held.seq);
    await a.release('k', held.seq);

    assertEqual((await lab.store.inspect()).queues[0]?.head.seq, next.seq);
  }),

  'keys and ids of any text are told apart': anyTime(async (lab) => {
    const a = await joined(lab, 'a');
    const keys = [
      '',
      ' ',
      'k',
      'k ',
      'K',
      'ß',
      'ss',
      'é',
      'e\u0301',
      '🦊',
      'a:b',
      '{a}',
      'a*',
      'a.b',
      'a\n',
      '1',
      "'",
      '"',
      '%',
      '\\',
    ];
    const long = 'x'.repeat(1000);

    const { results } = await a.apply(...[...keys, long, `${long}y`].map((key) => ({ op: 'reserve', key }) as const));

    assertEqual(
      results.every((result) => result !== null && result.fence > 0),
      true,
    );
    const found = (await lab.store.inspect()).queues.map(({ key }) => key);
    assertEqual([...found].sort(), [...keys, long, `${long}y`].sort());
  }),

  // ── Batches ──────────────────────────────────────────────────────────────────────────────────────────────────────

  'a repeated batch gets the same answer again and has no second effect': anyTime(async (lab) => {
    const a = await joined(lab, 'a');
    const ops = [
      { op: 'reserve', key: 'k' },
      { op: 'reserve', key: 'k' },
    ] as const;
    const first = await a.apply(...ops);

    assertEqual(await a.applyAs(1, ...ops), first);
    assertEqual((await lab.store.inspect()).queues[0]?.waiting, 1);
  }),

  'a batch older than the last one is stale and does nothing': anyTime(async (lab) => {
    const a = await joined(lab, 'a');
    await a.reserve('k');
    await a.reserve('k');

    assertEqual(await a.applyAs(1, { op: 'reserve', key: 'late' }), { kind: 'stale' });
    assertEqual((await lab.store.inspect()).queues.length, 1);
  }),

  'a heartbeat that is not newer than the last does nothing': anyTime(async (lab) => {
    const a = await joined(lab, 'a');
    const { seq, fence } = await a.reserve('k');
    await a.beat([{ key: 'k', seq, fence }]);

    a.beatNumber -= 1;
    assertEqual(await a.beatAnyhow([]), { kind: 'stale' });

    assertEqual((await lab.store.inspect()).queues[0]?.head.seq, seq);
  }),

  'an epoch that nobody has is dead: nothing of it is done': anyTime(async (lab) => {
    const a = await joined(lab, 'a');
    const stranger = new StoreClient(lab, 'b');
    stranger.epoch = a.epoch;

    assertEqual(await stranger.applyAs(1, { op: 'reserve', key: 'k' }), { kind: 'dead' });
    assertEqual(await stranger.beatAnyhow(), { kind: 'dead' });
    assertEqual((await lab.store.inspect()).queues, []);
  }),

  // ── Views ────────────────────────────────────────────────────────────────────────────────────────────────────────

  'a heartbeat brings a grant that was not heard of': anyTime(async (lab) => {
    const [a, b] = [await joined(lab, 'a'), await joined(lab, 'b')];
    const first = await a.reserve('k');
    const { seq } = await b.reserve('k');
    await a.release('k', first.seq);

    const { news, lost } = await b.beat([{ key: 'k', seq, fence: 0 }]);

    assertEqual(
      news.grants.map((grant) => [grant.key, grant.seq, grant.fence > first.fence]),
      [['k', seq, true]],
    );
    assertEqual(lost, []);
  }),

  'what a view holds rightly is confirmed without a word': anyTime(async (lab) => {
    const a = await joined(lab, 'a');
    const held = { key: 'k', ...(await a.reserve('k')) };
    const waiting = { key: 'k', ...(await a.reserve('k')) };

    const { news, lost, more } = await a.beat([held, waiting]);

    assertEqual([news, lost, more], [{ grants: [], adopted: [], parked: [] }, [], false]);
  }),

  'a view that claims what is not its own is told so, and takes nothing': anyTime(async (lab) => {
    const [a, b] = [await joined(lab, 'a'), await joined(lab, 'b')];
    const { seq, fence } = await a.reserve('k');
    const mine = await b.reserve('j');
    const claims = [
      { key: 'k', seq, fence },
      { key: 'j', seq: mine.seq, fence: mine.fence + 1 },
      { key: 'j', seq: 7, fence: 0 },
      { key: 'other', seq: mine.seq, fence: mine.fence },
    ];

    for (const claim of claims) {
      const view = claim.seq === mine.seq && claim.key === 'j' ? [claim] : [{ key: 'j', ...mine }, claim];
      assertEqual((await b.beat(view.slice(-2))).lost, [claim]);
    }

    assertEqual((await a.beat([{ key: 'k', seq, fence }])).lost, []);
  }),

  'a place that its owner does not list is given up, unless its batch was not answered yet': anyTime(async (lab) => {
    const [a, b] = [await joined(lab, 'a'), await joined(lab, 'b')];
    await a.reserve('k');
    await b.reserve('k');

    await a.beat([], { answered: 0 });
    const unanswered = await b.heard();
    await a.beat([], { answered: 1 });

    assertEqual(unanswered, []);
    assertEqual(
      (await b.heard()).map((push) => push.kind),
      ['grant'],
    );
  }),

  // ── Death ────────────────────────────────────────────────────────────────────────────────────────────────────────

  'a replica without heartbeats for more than a lease is dead by the word of a witness': inTime(async (lab) => {
    const [a, b] = [await joined(lab, 'a'), await joined(lab, 'b')];
    await a.reserve('k');
    const { seq } = await b.reserve('k');
    const view = [{ key: 'k', seq, fence: 0 }];

    await beatOn(lab, [b], LEASE_MS, () => view);
    const atTheLease = (await lab.store.inspect()).queues[0]?.head.seq;
    await beatOn(lab, [b], beatMs, () => view);

    assertEqual(atTheLease === seq, false);
    assertEqual((await lab.store.inspect()).queues[0]?.head.seq, seq);
    assertEqual(await a.beatAnyhow(), { kind: 'dead' });
    assertEqual(await a.applyAs(9, { op: 'reserve', key: 'x' }), { kind: 'dead' });
  }),

  'who was away itself is no witness: it may declare nobody dead before a whole lease of its own': inTime(
    async (lab) => {
      const [a, b] = [await joined(lab, 'a'), await joined(lab, 'b')];
      await a.reserve('k');
      await lab.moveClock?.(LEASE_MS + gapMs);

      await b.beat();
      assertEqual((await a.beatAnyhow()).kind, 'alive');

      await lab.moveClock?.(LEASE_MS + gapMs);
      await beatOn(lab, [b], LEASE_MS + 2 * beatMs);
      assertEqual((await a.beatAnyhow()).kind, 'dead');
    },
  ),

  'a reservation behind the dead buries it, when its caller is a witness': inTime(async (lab) => {
    const [a, b] = [await joined(lab, 'a'), await joined(lab, 'b')];
    await beatOn(lab, [a, b], LEASE_MS);
    await a.reserve('k');
    await beatOn(lab, [b], LEASE_MS);
    await lab.moveClock?.(1);

    assertEqual((await b.reserve('k')).fence > 0, true);
  }),

  'all tickets of a dead replica are skipped at once': inTime(async (lab) => {
    const [a, b] = [await joined(lab, 'a'), await joined(lab, 'b')];
    for (let n = 0; n < 20; n++) await a.reserve('k');
    const { seq } = await b.reserve('k');

    await beatOn(lab, [b], LEASE_MS + beatMs, () => [{ key: 'k', seq, fence: 0 }]);

    assertEqual((await lab.store.inspect()).queues, [
      { key: 'k', head: { seq, epoch: b.epoch, fence: (await lab.store.inspect()).queues[0]?.head.fence }, waiting: 0 },
    ]);
  }),

  'steps of the clock, forward or back, kill nobody who beats': inTime(async (lab) => {
    const [a, b] = [await joined(lab, 'a'), await joined(lab, 'b')];
    await beatOn(lab, [a, b], 2 * LEASE_MS);

    for (const step of [60_000, -60_000, 3000, -3000, LEASE_MS + 1, -LEASE_MS - 1]) {
      await lab.moveClock?.(step);
      await b.beat();
      await b.reserve('k');
      assertEqual((await a.beatAnyhow()).kind, 'alive');
      await beatOn(lab, [a, b], 2 * beatMs);
    }
  }),

  'a clock set back keeps no dead replica alive for longer than two leases': inTime(async (lab) => {
    const [a, b] = [await joined(lab, 'a'), await joined(lab, 'b')];
    await a.reserve('k');
    await lab.moveClock?.(-600_000);

    await beatOn(lab, [b], 2 * LEASE_MS);

    assertEqual((await a.beatAnyhow()).kind, 'dead');
  }),

  'fences rise over releases, idle times and a clock set back': inTime(async (lab) => {
    const a = await joined(lab, 'a');
    const fences: number[] = [];

    for (const step of [0, 1000, -60_000, 0, 30, -5]) {
      await lab.moveClock?.(step);
      const { seq, fence } = await a.reserve('k');
      fences.push(seq, fence);
      await a.release('k', seq);
    }

    for (const [at, stamp] of fences.entries()) assertEqual(at === 0 || stamp > (fences[at - 1] ?? 0), true);
  }),
};

/** What every store does, by title. */
export const STORE_FACTS: Readonly<Record<string, StoreFact>> = {
  ...FACTS,
  ...MESSAGE_FACTS,
  ...MAILROOM_FACTS,
  ...SERVER_FACTS,
};
