import { describe, expect, test } from 'vitest';
import { MemoryStore } from '../coordination/MemoryStore.js';
import { FORMAT, type Push } from '../coordination/store.js';
import { Link } from './Link.js';
import { VirtualClock } from './VirtualClock.js';

const config = { format: FORMAT, leaseMs: 12_000, shards: 1 };
const join = (instance: string) =>
  ({ replicaId: instance, instance, firstEpoch: 0, config, adopts: false, seen: 0 }) as const;
const reserve = (epoch: number, instance: string, batch: number) =>
  ({ epoch, instance, batch, ops: [{ op: 'reserve', key: 'k' }] }) as const;

/** Settled or not, after everything that can happen without time passing has happened. */
function watch<T>(promise: Promise<T>): { readonly value: T | undefined; readonly isSettled: boolean } {
  const seen: { value: T | undefined; isSettled: boolean } = { value: undefined, isSettled: false };
  promise.then(
    (value) => Object.assign(seen, { value, isSettled: true }),
    () => Object.assign(seen, { isSettled: true }),
  );
  return seen;
}

async function setUp() {
  const clock = new VirtualClock();
  const store = new MemoryStore({ clock });
  const link = new Link(store, { clock });
  const joined = await link.join(join('a'));
  if (joined.kind !== 'joined') throw new Error(joined.kind);
  const pushes: Push[] = [];
  await link.subscribe('a', (push) => pushes.push(push));
  const waiting = async () => (await store.inspect()).queues.reduce((sum, queue) => sum + queue.waiting + 1, 0);
  let beats = 0;
  const beat = () =>
    link.beat({
      epoch: joined.epoch,
      instance: 'a',
      beat: ++beats,
      era: joined.era,
      watchedMs: 0,
      seen: 0,
      adopts: false,
      answered: 0,
      heard: 0,
      view: [],
    });
  return { clock, store, link, epoch: joined.epoch, pushes, waiting, beat };
}

describe('Link', () => {
  test('without a fault it passes a call straight on when the store answers at once', () => {
    const clock = new VirtualClock();
    const store = new MemoryStore({ clock });
    const answer = Promise.resolve({ kind: 'stale' } as const);
    store.apply = () => answer;

    const link = new Link(store, { clock, answersAtOnce: true });

    expect(link.apply(reserve(1, 'a', 1))).toBe(answer);
  });

  test('a lost request never settles and does nothing', async () => {
    const { clock, link, epoch, waiting } = await setUp();

    link.cut('requests');
    const asked = watch(link.apply(reserve(epoch, 'a', 1)));
    await clock.advance(60_000);
    link.heal();
    await clock.advance(60_000);

    expect(asked.isSettled).toBe(false);
    expect(await waiting()).toBe(0);
  });

  test('a lost answer never settles, and the step is done', async () => {
    const { clock, link, epoch, waiting } = await setUp();

    link.loseAnswers({ next: 1, of: 'apply' });
    await link.inspect();
    const asked = watch(link.apply(reserve(epoch, 'a', 1)));
    await clock.advance(60_000);
    const again = await link.apply(reserve(epoch, 'a', 1));

    expect(asked.isSettled).toBe(false);
    expect(again.kind).toBe('applied');
    expect(await waiting()).toBe(1);
  });

  test('a cut loses what is on its way', async () => {
    const { clock, link, epoch, waiting } = await setUp();

    link.delay(10);
    const asked = watch(link.apply(reserve(epoch, 'a', 1)));
    await clock.advance(15);
    link.cut('answers');
    await clock.advance(60_000);

    expect(asked.isSettled).toBe(false);
    expect(await waiting()).toBe(1);
  });

  test('a delay takes its time each way', async () => {
    const { clock, link, epoch, waiting } = await setUp();

    link.delay(10, 20);
    const asked = watch(link.apply(reserve(epoch, 'a', 1)));
    await clock.advance(9);
    expect(await waiting()).toBe(0);
    await clock.advance(11);
    expect(await waiting()).toBe(1);
    expect(asked.isSettled).toBe(false);
    await clock.advance(20);

    expect(asked.isSettled).toBe(true);
  });

  test('frozen, requests, answers and pushes wait for the thaw, in order', async () => {
    const { clock, link, epoch, pushes, waiting, beat } = await setUp();
    link.delay(10);
    const inFlight = watch(link.apply(reserve(epoch, 'a', 1)));
    void beat();
    await clock.advance(5);

    link.freeze();
    const held = watch(link.apply(reserve(epoch, 'a', 2)));
    await clock.advance(1000);
    expect([inFlight.isSettled, held.isSettled, pushes.length, await waiting()]).toEqual([false, false, 0, 1]);
    link.thaw();
    await clock.advance(0);
    expect([inFlight.isSettled, held.isSettled, pushes.length]).toEqual([true, false, 1]);
    await clock.advance(20);

    expect(held.isSettled).toBe(true);
    expect(await waiting()).toBe(2);
  });

  test('a repeated request reaches the store twice and is answered once', async () => {
    const { clock, store, link, epoch } = await setUp();
    let reached = 0;
    const apply = store.apply.bind(store);
    store.apply = (request) => {
      reached += 1;
      return apply(request);
    };

    link.repeatRequests(1, 500);
    await link.apply(reserve(epoch, 'a', 1));
    expect(reached).toBe(1);
    await clock.advance(500);

    expect(reached).toBe(2);
    expect(link.counts.requests.apply).toBe(1);
  });

  test('a dropped push is counted and not heard', async () => {
    const { link, pushes, beat } = await setUp();

    link.dropPushes({ next: 1 });
    await beat();
    await beat();

    expect(pushes.map((push) => push.kind)).toEqual(['ping']);
    expect(link.counts.pushes.ping).toBe(2);
    expect(link.counts.requests.beat).toBe(2);
  });

  test('killed, nothing is sent or heard, and the store forgets the listener', async () => {
    const { clock, store, link, epoch, pushes, waiting } = await setUp();

    link.kill();
    const asked = watch(link.apply(reserve(epoch, 'a', 1)));
    await clock.advance(1000);

    expect(asked.isSettled).toBe(false);
    expect(await waiting()).toBe(0);
    expect(pushes).toEqual([]);
    expect(store.listenerCount).toBe(0);
  });

  test('it knows every epoch that was given over it, the answer lost or not', async () => {
    const { link, epoch } = await setUp();

    link.loseAnswers({ next: 1 });
    void link.join({ ...join('a'), instance: 'a2' });
    await link.inspect();

    expect(link.epochs.length).toBe(2);
    expect(link.epochs[0]).toBe(epoch);
  });
});
