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
