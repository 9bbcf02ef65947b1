import type { ApplyRequest, Op } from '@botmesh/core/spi';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { findDriver } from './driver.js';
import { SqliteCoordinator, SqliteStateStore, SqliteStore } from './index.js';
import { type Folder, makeFolder } from './lab.test-support.js';

const MEGABYTE = 1_000_000;
const CONFIG = { format: 1, leaseMs: 12_000, shards: 1 };

let folder: Folder;
let closers: (() => Promise<unknown>)[] = [];

beforeEach(() => {
  folder = makeFolder();
  closers = [];
});

afterEach(async () => {
  await Promise.all(closers.map((close) => close()));
  folder.remove();
});

/** What is kept apart now, by how many characters it has. */
async function lengthsApart(): Promise<number[]> {
  const database = (await findDriver()).open(folder.file);
  try {
    const rows = database.prepare('SELECT length(text) AS length FROM long ORDER BY stamp').all();
    return rows.map((row) => row.length as number);
  } finally {
    database.close();
  }
}

async function startCoordinator(replicaId: string): Promise<SqliteCoordinator> {
  const coordinator = new SqliteCoordinator({ path: folder.file, replicaId });
  closers.push(() => coordinator.stop());
  return coordinator;
}

/** A replica at the store itself, which sends batches and adopts. */
async function joinedStore() {
  const store = new SqliteStore({ path: folder.file });
  closers.push(() => store.close());
  const instance = 'a-1';
  const joined = await store.join({ replicaId: 'a', instance, firstEpoch: 0, config: CONFIG, adopts: true, seen: 0 });
  if (joined.kind !== 'joined') throw new Error(joined.kind);
  const { epoch } = joined;
  const apply = async (batch: number, ...ops: Op[]) => {
    const answer = await store.apply({ epoch, instance, batch, ops } satisfies ApplyRequest);
    if (answer.kind !== 'applied') throw new Error(answer.kind);
    return answer;
  };
  return { store, apply };
}

/** Timers and heartbeats get their turn, as they do between the messages of a bot. */
function breathe(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

test('20 messages of 1 MB that wait in one chat hold up neither the other chats nor their holder', async () => {
  const [holder, other] = [await startCoordinator('holder'), await startCoordinator('other')];
  for (const each of [holder, other]) {
    each.onAdopted(() => {});
    await each.start();
  }
  const first = await holder.acquireTurn(await holder.reserve('big'));
  const bodies = Array.from({ length: 20 }, (_, index) => String(index).padEnd(MEGABYTE, 'x'));
  const tickets = [];
  for (const body of bodies) {
    tickets.push(await holder.accept('big', { body }));
    await breathe();
  }

  const startedMs = performance.now();
  for (let count = 0; count < 300; count += 1) {
    const turn = await other.acquireTurn(await other.reserve(`chat-${count % 7}`));
    await turn.release();
    await breathe();
  }
  const tookMs = performance.now() - startedMs;

  // A turn takes a millisecond or two. With the bodies in the rows it took hundreds.
  expect(tookMs).toBeLessThan(15_000);
  first.assertHeld();
  await first.release();
  for (const ticket of tickets) {
    const turn = await holder.acquireTurn(ticket!);
    turn.assertHeld();
    await turn.release();
    await breathe();
  }
  expect(await lengthsApart()).toEqual([]);
}, 120_000);

test('big messages of a replica that stops are whole where they go on, in order', async () => {
  const [former, next] = [await startCoordinator('former'), await startCoordinator('next')];
  await former.start();
  const bodies = Array.from({ length: 8 }, (_, index) => `${index} ä\ud800\u0000 `.padEnd(MEGABYTE, 'y'));
  for (const [index, body] of bodies.entries()) await former.accept('chat', { id: `m${index}`, body });
  const found: string[] = [];
  const handled: Promise<void>[] = [];
  next.onAdopted(({ ticket, body }) => {
    const handle = async (): Promise<void> => {
      const turn = await next.acquireTurn(ticket);
      found.push(body);
      await turn.release();
    };
    handled.push(handle());
  });
  await next.start();
  await former.stop();
  await expect.poll(() => handled.length, { timeout: 30_000 }).toBe(bodies.length);
  await Promise.all(handled);

  expect(found.map((body) => body.slice(0, 1))).toEqual(['0', '1', '2', '3', '4', '5', '6', '7']);
  expect(found.every((body, index) => body === bodies[index])).toBe(true);
}, 60_000);

test('a batch that handed out a big message is answered alike when it is repeated', async () => {
  const { apply } = await joinedStore();
  const body = 'ü'.repeat(MEGABYTE);
  const accept: Op = { op: 'accept', key: 'chat', id: 'm', body, maxAttempts: 5, dedupeMs: 1000 };
  const seq = (await apply(1, accept)).results[0]!.seq;
  expect(await lengthsApart()).toEqual([MEGABYTE]);

  const answer = await apply(2, { op: 'release', key: 'chat', seq, how: 'return' });

  expect(answer.news.adopted).toMatchObject([{ seq, body, attempt: 2 }]);
  expect(await apply(2, { op: 'release', key: 'chat', seq, how: 'return' })).toEqual(answer);
  await apply(3, { op: 'release', key: 'chat', seq, how: 'done' });
  expect(await lengthsApart()).toEqual([]);
});

test('a big message that is parked and taken up again is whole, and leaves nothing when it is dropped', async () => {
  const { apply, store } = await joinedStore();
  const body = 'z'.repeat(MEGABYTE);
  const accept: Op = { op: 'accept', key: 'chat', id: 'm', body, maxAttempts: 1, dedupeMs: 1000 };
  const seq = (await apply(1, accept)).results[0]!.seq;
  await apply(2, { op: 'release', key: 'chat', seq, how: 'return' });
  expect((await store.inspect()).parked).toMatchObject([{ seq, body }]);
  expect(await lengthsApart()).toEqual([]);

  const again = await apply(3, { op: 'replay', key: 'chat', seq, maxAttempts: 1, dedupeMs: 1000 });
  expect(again.news.adopted).toMatchObject([{ body, attempt: 1 }]);
  const newSeq = again.results[0]!.seq;
  await apply(4, { op: 'release', key: 'chat', seq: newSeq, how: 'return' });
  await apply(5, { op: 'drop', key: 'chat', seq: newSeq });

  expect((await store.inspect()).parked).toEqual([]);
  expect(await lengthsApart()).toEqual([]);
});

test('the holder is shown big messages that wait behind it, whole', async () => {
  const { apply, store } = await joinedStore();
  const message = { op: 'accept', key: 'chat', maxAttempts: 5, dedupeMs: 1000 } as const;
  const bodies = ['first', 'w'.repeat(MEGABYTE), 'small'];
  const { results } = await apply(1, ...bodies.map((body, index): Op => ({ ...message, id: `m${index}`, body })));

  const found = await store.waiting({ key: 'chat', seq: results[0]!.seq, limit: 10 });

  expect(found.map(({ body }) => body)).toEqual(bodies.slice(1));
});

test('big states of some chats do not hold up the states of others', async () => {
  const states = new SqliteStateStore({ path: folder.file });
  closers.push(() => states.close());
  const big = 's'.repeat(2 * MEGABYTE);
  for (let chat = 0; chat < 20; chat += 1) await states.save(`chat-${chat}0`, { big }, 1);

  const startedMs = performance.now();
  for (let count = 0; count < 1_000; count += 1) {
    await states.save(`chat-${count}-small`, { count }, 1);
    await states.load(`chat-${count}-small`);
  }

  // A fraction of a millisecond for each. With the values in the tree that is searched it was tens.
  expect(performance.now() - startedMs).toBeLessThan(10_000);
  expect((await states.load('chat-190'))?.value).toEqual({ big });
}, 60_000);

test('calls that follow each other without a pause let timers fire', async () => {
  const states = new SqliteStateStore({ path: folder.file });
  closers.push(() => states.close());
  await states.save('chat', {}, 1);
  let isFired = false;
  setTimeout(() => {
    isFired = true;
  }, 20);

  // Seconds, if nothing came between.
  for (let count = 0; count < 20_000 && !isFired; count += 1) await states.load('chat');

  expect(isFired).toBe(true);
}, 60_000);
