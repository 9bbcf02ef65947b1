import type { Adoption, Grant } from '../coordination/store.js';
import { timing } from '../coordination/timing.js';
import { assertEqual } from './assertions.js';
import { beatOn, joined, LEASE_MS, StoreClient } from './StoreClient.js';
import type { StoreFact } from './store-fact.js';
import type { StoreLab } from './store-lab.js';

const anyTime = (show: (lab: StoreLab) => Promise<void>): StoreFact => ({ needs: [], show });
const inTime = (show: (lab: StoreLab) => Promise<void>): StoreFact => ({ needs: ['moveClock'], show });

const { beatMs } = timing(LEASE_MS);

/** What a store does with messages. */
export const MESSAGE_FACTS: Readonly<Record<string, StoreFact>> = {
  'an accepted message takes its place in the queue as any ticket does': anyTime(async (lab) => {
    const a = await joined(lab, 'a');
    const first = await a.accept('k', 'm1');
    const second = await a.accept('k', 'm2');

    const { news } = await a.release('k', first?.seq ?? 0);

    assertEqual([(first?.fence ?? 0) > 0, second?.fence], [true, 0]);
    assertEqual(
      news.grants.map((grant) => grant.seq),
      [second?.seq],
    );
  }),

  'an id is taken in once while it waits, runs or was done; another key has ids of its own': anyTime(async (lab) => {
    const [a, b] = [await joined(lab, 'a'), await joined(lab, 'b')];
    const first = await a.accept('k', 'm');
    const second = await a.accept('k', 'n');

    assertEqual([await b.accept('k', 'm'), await a.accept('k', 'n')], [null, null]);
    await a.release('k', first?.seq ?? 0);
    await a.release('k', second?.seq ?? 0);
    assertEqual([await b.accept('k', 'm'), await a.accept('k', 'n')], [null, null]);

    assertEqual((await b.accept('j', 'm')) === null, false);
    assertEqual((await lab.store.inspect()).remembered, 2);
  }),

  'two pairs of key and id are not mixed up': anyTime(async (lab) => {
    const a = await joined(lab, 'a');
    const pairs = [
      ['a', 'bc'],
      ['ab', 'c'],
      ['a:b', 'c'],
      ['a', 'b:c'],
      ['', 'abc'],
      ['abc', ''],
      ['1:a', 'b'],
      ['1', 'a:b'],
    ];

    for (const [key = '', id = ''] of pairs) assertEqual((await a.accept(key, id)) === null, false);
  }),

  'messages without an id are all different': anyTime(async (lab) => {
    const a = await joined(lab, 'a');

    assertEqual([(await a.accept('k', null)) === null, (await a.accept('k', null)) === null], [false, false]);
  }),

  'the id of a message that was given up is free again': anyTime(async (lab) => {
    const a = await joined(lab, 'a');
    const first = await a.accept('k', 'm');
    const second = await a.accept('k', 'n');

    await a.release('k', second?.seq ?? 0, 'withdraw');
    await a.release('k', first?.seq ?? 0, 'withdraw');

    assertEqual([(await a.accept('k', 'm')) === null, (await a.accept('k', 'n')) === null], [false, false]);
    assertEqual((await lab.store.inspect()).remembered, 0);
  }),

  'the id of a finished message is remembered for its time and no longer': inTime(async (lab) => {
    const a = await joined(lab, 'a');
    const first = await a.accept('k', 'm', { dedupeMs: 5000 });
    await a.release('k', first?.seq ?? 0);

    await lab.moveClock?.(4999);
    assertEqual(await a.accept('k', 'm'), null);
    await lab.moveClock?.(2);
    assertEqual((await a.accept('k', 'm')) === null, false);
  }),

  'ids whose time is over are forgotten by heartbeats': inTime(async (lab) => {
    const a = await joined(lab, 'a');
    const message = await a.accept('k', 'm', { dedupeMs: 5000 });
    await a.release('k', message?.seq ?? 0);

    await beatOn(lab, [a], 6000);

    assertEqual((await lab.store.inspect()).remembered, 0);
  }),

  'a message that is returned goes to a replica that adopts, in its place, with its attempt counted': anyTime(
    async (lab) => {
      const [a, b] = [await joined(lab, 'a'), await joined(lab, 'b', { adopts: true })];
      await b.beat();
      await b.heard();
      const first = await a.accept('k', 'm');
      const later = await a.accept('k', 'n');

      await a.release('k', first?.seq ?? 0, 'return');
      const told = (await b.heard()).map((push) => push.kind);
      const { news } = await b.beat();

      assertEqual(told, ['look']);
      const [message, ...more] = news.adopted;
      assertEqual(more, []);
      const { key, seq, id, body, attempt } = message ?? {};
      assertEqual(
        { key, seq, id, body, attempt },
        { key: 'k', seq: first?.seq, id: 'm', body: 'body of m', attempt: 2 },
      );
      assertEqual((message?.fence ?? 0) > (later?.seq ?? 0), true);
    },
  ),

  'the replica that returns a message gets it back itself, when it adopts': anyTime(async (lab) => {
    const a = await joined(lab, 'a', { adopts: true });
    const first = await a.accept('k', 'm');

    const { news } = await a.release('k', first?.seq ?? 0, 'return');

    assertEqual(
      news.adopted.map(({ seq, attempt }) => [seq, attempt]),
      [[first?.seq, 2]],
    );
    assertEqual(await a.heard(), []);
  }),

  'a message that is returned before it was granted has lost no attempt': anyTime(async (lab) => {
    const a = await joined(lab, 'a', { adopts: true });
    const first = await a.accept('k', 'm');
    const second = await a.accept('k', 'n');
    await a.release('k', second?.seq ?? 0, 'return');

    const { news } = await a.release('k', first?.seq ?? 0);

    assertEqual(
      news.adopted.map(({ seq, attempt }) => [seq, attempt]),
      [[second?.seq, 1]],
    );
  }),

  'what was handed over and not heard of is handed over again, and what was heard of is not': anyTime(async (lab) => {
    const [a, b] = [await joined(lab, 'a'), await joined(lab, 'b', { adopts: true })];
    await a.accept('k', 'm');
    await a.leave();

    const first = (await b.beat()).news.adopted;
    const again = (await b.beat()).news.adopted;
    const view = again.map(({ key, seq, fence }) => ({ key, seq, fence }));
    const heard = await b.beat(view);

    assertEqual([first.length, again], [1, first]);
    assertEqual([heard.news.adopted, heard.lost], [[], []]);
  }),

  'messages of a dead replica are adopted before later ones, waiting and begun alike': inTime(async (lab) => {
    const [a, b] = [await joined(lab, 'a'), await joined(lab, 'b', { adopts: true })];
    const begun = await a.accept('k', 'm1');
    const waiting = await a.accept('k', 'm2');
    const later = await b.accept('k', 'm3');
    const mine = { key: 'k', seq: later?.seq ?? 0, fence: 0 };

    await beatOn(lab, [b], LEASE_MS, () => [mine]);
    await lab.moveClock?.(beatMs);
    const [first] = (await b.beat([mine])).news.adopted;
    const next = await b.release('k', first?.seq ?? 0);
    const [second] = next.news.adopted;
    const last = await b.release('k', second?.seq ?? 0);

    assertEqual([first?.seq, first?.attempt], [begun?.seq, 2]);
    assertEqual([second?.seq, second?.attempt], [waiting?.seq, 1]);
    assertEqual(
      last.news.grants.map((grant) => grant.seq),
      [later?.seq],
    );
  }),

  'messages of a replica that left in good order have lost no attempt': anyTime(async (lab) => {
    const [a, b] = [await joined(lab, 'a'), await joined(lab, 'b', { adopts: true })];
    await a.accept('k', 'm');

    await a.leave();

    assertEqual(
      (await b.beat()).news.adopted.map(({ attempt }) => attempt),
      [1],
    );
  }),

  'a message that nobody can take over waits in its place, and blocks what is behind it': anyTime(async (lab) => {
    const [a, b] = [await joined(lab, 'a'), await joined(lab, 'b')];
    const first = await a.accept('k', 'm');
    const later = await b.reserve('k');
    await a.leave();

    const view = [{ key: 'k', seq: later.seq, fence: 0 }];
    assertEqual((await b.beat(view)).news.grants, []);
    const c = await joined(lab, 'c', { adopts: true });
    const [adopted] = (await c.beat()).news.adopted;
    await c.release('k', adopted?.seq ?? 0);

    assertEqual(adopted?.seq, first?.seq);
    assertEqual(
      (await b.heard()).map((push) => push.kind === 'grant' && push.seq),
      [later.seq],
    );
  }),

  'a replica that stopped listening for messages gives back what it was offered': anyTime(async (lab) => {
    const [a, b, c] = [await joined(lab, 'a'), await joined(lab, 'b', { adopts: true }), await joined(lab, 'c')];
    const first = await a.accept('k', 'm');
    await a.leave();
    b.adopts = false;
    await b.beat();

    c.adopts = true;
    const [adopted] = (await c.beat()).news.adopted;

    assertEqual([adopted?.seq, adopted?.attempt], [first?.seq, 1]);
  }),

  'a message is parked after its last attempt, told of, kept with its body, and blocks nobody': anyTime(async (lab) => {
    const a = await joined(lab, 'a', { adopts: true });
    const first = await a.accept('k', 'm', { maxAttempts: 2 });
    const later = await a.reserve('k');
    const seq = first?.seq ?? 0;

    await a.release('k', seq, 'return');
    const { news } = await a.release('k', seq, 'return');

    assertEqual(news.parked, [{ key: 'k', id: 'm', attempts: 2, error: null }]);
    assertEqual(
      news.grants.map((grant) => grant.seq),
      [later.seq],
    );
    const { parked } = await lab.store.inspect();
    assertEqual(parked, [{ key: 'k', seq, id: 'm', body: 'body of m', attempts: 2, error: null }]);
    assertEqual(await a.accept('k', 'm'), null);
  }),

  'a replica has one suspect message at a time, and gets the next with the end of that': anyTime(async (lab) => {
    const a = await joined(lab, 'a', { adopts: true });
    const seqs = await suspects(a, ['k1', 'k2', 'k3']);
    const first = seqs[0] ?? 0;
    const fresh = await a.accept('k4', null);

    const back = (await a.release('k1', first, 'return')).news.adopted;
    const beat = await a.beat([...back, { key: 'k4', ...fresh! }].map(({ key, seq, fence }) => ({ key, seq, fence })));
    const second = (await a.release('k1', first)).news.adopted;
    const third = (await a.release('k2', seqs[1] ?? 0, 'withdraw')).news.adopted;
    const rest = (await a.release('k3', seqs[2] ?? 0)).news.adopted;

    assertEqual((fresh?.fence ?? 0) > 0, true);
    assertEqual([beat.news.adopted, beat.more], [[], false]);
    assertEqual(triesOf([...back, ...second, ...third, ...rest]), ['k1 4', 'k2 3', 'k3 3']);
    assertEqual((await lab.store.inspect()).queues.length, 1);
  }),

  'suspect messages go to replicas that have none, and to no other': anyTime(async (lab) => {
    const a = await joined(lab, 'a', { adopts: true });
    await suspects(a, ['k1', 'k2', 'k3', 'k4']);
    const b = await joined(lab, 'b', { adopts: true });
    const first = (await b.beat()).news.adopted;
    const c = await joined(lab, 'c', { adopts: true });
    const second = (await c.beat()).news.adopted;

    const again = (await b.beat(first.map(({ key, seq, fence }) => ({ key, seq, fence })))).news.adopted;

    assertEqual([triesOf(first), triesOf(second), again], [['k2 3'], ['k3 3'], []]);
  }),

  'a message is suspect from its last attempt on, if that comes before the third': anyTime(async (lab) => {
    const a = await joined(lab, 'a', { adopts: true });
    const [first, second] = [
      await a.accept('k1', null, { maxAttempts: 2 }),
      await a.accept('k2', null, { maxAttempts: 2 }),
    ];

    const one = (await a.release('k1', first?.seq ?? 0, 'lost')).news.adopted;
    const two = (await a.release('k2', second?.seq ?? 0, 'lost')).news.adopted;

    assertEqual([triesOf(one), two], [['k1 2'], []]);
  }),

  'a message that failed by itself is not suspect, however often': anyTime(async (lab) => {
    const a = await joined(lab, 'a', { adopts: true });
    const tries: string[] = [];
    for (const key of ['k1', 'k2']) {
      const seq = (await a.accept(key, null))?.seq ?? 0;
      for (let n = 0; n < 4; n++) tries.push(...triesOf((await a.release(key, seq, 'return')).news.adopted));
    }

    assertEqual(tries.slice(-4), ['k2 2', 'k2 3', 'k2 4', 'k2 5']);
  }),

  'messages that two replicas died with are suspect': inTime(async (lab) => {
    const [a, b, c] = [await joined(lab, 'a'), await joined(lab, 'b', { adopts: true }), await joined(lab, 'c')];
    for (const key of ['k1', 'k2']) await a.accept(key, null);

    await beatOn(lab, [b, c], LEASE_MS);
    await lab.moveClock?.(beatMs);
    const first = (await b.beat()).news.adopted;
    c.adopts = true;
    await beatOn(lab, [c], LEASE_MS + beatMs);
    const view: Grant[] = [];
    const second: Adoption[] = [];
    for (let n = 0; n < 3; n++) {
      second.push(...(await c.beat(view)).news.adopted);
      view.splice(0, view.length, ...second.map(({ key, seq, fence }) => ({ key, seq, fence })));
    }

    assertEqual([triesOf(first), triesOf(second)], [['k1 2', 'k2 2'], ['k1 3']]);
  }),

  'a suspect message that has run for five leases holds up no other': inTime(async (lab) => {
    const a = await joined(lab, 'a', { adopts: true });
    const [seq = 0] = await suspects(a, ['k1', 'k2']);
    const [entry] = (await a.beat()).news.adopted;
    const view = [{ key: 'k1', seq, fence: entry?.fence ?? 0 }];

    await beatOn(lab, [a], LEASE_MS * 4.9, () => view);
    const early = (await a.beat(view)).news.adopted;
    await lab.moveClock?.(LEASE_MS * 0.2);
    const late = (await a.beat(view)).news.adopted;

    assertEqual([early, triesOf(late)], [[], ['k2 3']]);
  }),

  'no answer hands out more messages than its share, and the rest follows': anyTime(async (lab) => {
    const [a, b] = [await joined(lab, 'a'), new StoreClient(lab, 'b')];
    const ops = Array.from({ length: 150 }, (_, n) => {
      return { op: 'accept', key: `k${n}`, id: null, body: '', maxAttempts: 5, dedupeMs: 0 } as const;
    });
    await a.apply(...ops);
    await a.leave();
    b.adopts = true;
    await b.join();

    const adopted = new Map<string, { key: string; seq: number; fence: number }>();
    for (let n = 0; n < 10; n++) {
      const { news, more } = await b.beat([...adopted.values()]);
      assertEqual(news.adopted.length <= 64, true);
      for (const { key, seq, fence } of news.adopted) adopted.set(key, { key, seq, fence });
      if (!more) break;
    }

    assertEqual(adopted.size, 150);
  }),
};

/** Messages of these keys that were in the hand of `client` when it was blocked, twice; the first is in its hand again. */
async function suspects(client: StoreClient, keys: readonly string[]): Promise<number[]> {
  const seqs: number[] = [];
  for (const key of keys) seqs.push((await client.accept(key, null))?.seq ?? 0);
  for (let n = 0; n < 2; n++) for (const [at, key] of keys.entries()) await client.release(key, seqs[at] ?? 0, 'lost');
  return seqs;
}

const triesOf = (adopted: readonly Adoption[]): string[] => adopted.map(({ key, attempt }) => `${key} ${attempt}`);
