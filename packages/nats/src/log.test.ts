import { randomUUID } from 'node:crypto';
import { FORMAT, type JoinAnswer, type Op } from '@botmesh/core/spi';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { NatsServer, until } from '../testing/lab.js';
import { Desk } from '../testing/stores.js';
import { NatsCoordinator } from './index.js';
import { NatsStore } from './NatsStore.js';
import { type Place, placeOf } from './namespace.js';

const MESH = { leaseMs: 12_000, shards: 1, format: FORMAT };

let server: NatsServer;
let desk: Desk;
beforeAll(async () => {
  server = await NatsServer.start({ config: 'max_payload: 16384' });
  desk = await Desk.open(server.url);
});
afterAll(async () => {
  await desk[Symbol.asyncDispose]();
  await server[Symbol.asyncDispose]();
});

function storeOn(place: Place, options: { snapshotBytes?: number; timeoutMs?: number } = {}): NatsStore {
  const wish = { replicas: undefined, maxBytes: undefined };
  return new NatsStore({ link: desk.shared(), place, wish, timeoutMs: 5_000, ...options });
}

/** One replica, by hand. */
async function joined(store: NatsStore, name = 'a'): Promise<(...ops: Op[]) => Promise<(number | null)[]>> {
  const who = { replicaId: name, instance: `${name}-${randomUUID()}`, firstEpoch: 0, seen: 0, adopts: true };
  await store.subscribe(who.instance, () => {});
  const { epoch } = (await store.join({ ...who, config: MESH })) as JoinAnswer & { epoch: number };
  let batch = 0;
  return async (...ops) => {
    batch += 1;
    const answer = await store.apply({ epoch, instance: who.instance, batch, ops });
    if (answer.kind !== 'applied') throw new Error(answer.kind);
    return answer.results.map((taken) => taken?.seq ?? null);
  };
}

async function stateOf({ stream }: Place): Promise<{ bytes: number; messages: number; first_seq: number }> {
  return (
    await desk.link.ask<{ state: { bytes: number; messages: number; first_seq: number } }>(`STREAM.INFO.${stream}`)
  ).state;
}

const freshPlace = (): Place => placeOf(randomUUID(), 0);

test('over a hundred thousand turns the log stays as small as its record, and who comes then has the same record', async () => {
  const place = freshPlace();
  await desk.bear(place);
  const snapshotBytes = 256 * 1024;
  const store = storeOn(place, { snapshotBytes });
  const apply = await joined(store);
  let most = 0;
  const keys = Array.from({ length: 128 }, (_, n) => `chat ${n}`);
  for (let round = 0; round < 800; round++) {
    const seqs = await apply(...keys.map((key): Op => ({ op: 'reserve', key })));
    await apply(...keys.map((key, at): Op => ({ op: 'release', key, seq: seqs[at]!, how: 'done' })));
    if (round % 50 === 0) most = Math.max(most, (await stateOf(place)).bytes);
  }

  // All of it is some 25 MB. What comes while a snapshot is being written depends on the machine.
  expect(most).toBeLessThan(16 * snapshotBytes);
  const late = storeOn(place);
  expect((await late.inspect()).queues).toEqual([]);
  expect((await late.inspect()).replicas).toEqual((await store.inspect()).replicas);
  await Promise.all([store.close(), late.close()]);
}, 120_000);

test('a step larger than a message of the server is made, in parts', async () => {
  const place = freshPlace();
  await desk.bear(place);
  const store = storeOn(place);
  const other = storeOn(place);
  const apply = await joined(store);
  const body = 'ö'.repeat(100_000);

  const [seq] = await apply({ op: 'accept', key: 'k', id: 'm', body, maxAttempts: 5, dedupeMs: 1000 });
  await apply({ op: 'accept', key: 'k', id: 'n', body, maxAttempts: 5, dedupeMs: 1000 });

  const [behind] = await other.waiting({ key: 'k', seq: seq!, limit: 5 });
  expect(behind?.body === body).toBe(true);
  await Promise.all([store.close(), other.close()]);
});

test('a purge of the whole stream loses nothing while one replica lives', async () => {
  const place = freshPlace();
  await desk.bear(place);
  const store = storeOn(place);
  const apply = await joined(store);
  const [seq] = await apply({ op: 'reserve', key: 'k' });
  await desk.link.ask(`STREAM.PURGE.${place.stream}`);

  const late = storeOn(place);

  expect((await late.inspect()).queues).toMatchObject([{ key: 'k', head: { seq } }]);
  await Promise.all([store.close(), late.close()]);
});

test('a purge loses nothing when the one replica that lives was cut off meanwhile, and has read all there was', async () => {
  const place = freshPlace();
  await desk.bear(place);
  const store = storeOn(place);
  const apply = await joined(store);
  const [seq] = await apply({ op: 'reserve', key: 'k' });
  await desk.link.ask(`STREAM.PURGE.${place.stream}`);
  await store.log.again();

  const late = storeOn(place);

  expect((await late.inspect()).queues).toMatchObject([{ key: 'k', head: { seq } }]);
  await Promise.all([store.close(), late.close()]);
});

test('a stream that was put back grants nothing to who had read more than it has', async () => {
  const place = freshPlace();
  await desk.bear(place);
  const [first, second] = [storeOn(place, { timeoutMs: 1000 }), storeOn(place, { timeoutMs: 1000 })];
  const [apply, other] = [await joined(first), await joined(second, 'b')];
  const putBack = await desk.copy(place);
  const [held] = await apply({ op: 'reserve', key: 'k' });
  await second.log.reached(first.log.applied);
  await putBack();

  const [seq] = await other({ op: 'reserve', key: 'k' });

  expect(seq).toBeGreaterThan(held!);
  expect(await second.inspect()).toMatchObject({ quarantined: true, queues: [{ head: { seq, fence: 0 } }] });
  await Promise.all([first.close(), second.close()]);
});

test('a stream that was put back twice, or was an empty one meanwhile, grants nothing to who had read more than it has', async () => {
  const place = freshPlace();
  await desk.bear(place);
  const store = storeOn(place, { timeoutMs: 1000 });
  const apply = await joined(store);
  const putBack = await desk.copy(place);
  await apply({ op: 'reserve', key: 'k' });

  for (const key of ['once', 'twice']) {
    await desk.remove(place);
    await store.log.again();
    await joined(store, 'meanwhile');
    await putBack();
    await store.log.again();
    await apply({ op: 'reserve', key });

    const { quarantined, queues } = await store.inspect();
    expect({ quarantined, queues }, key).toMatchObject({ quarantined: true, queues: [{ key, head: { fence: 0 } }] });
  }
  await store.close();
});

test('a log whose beginning is gone, and that nobody has read, begins anew with a quarantine', async () => {
  const place = freshPlace();
  await desk.bear(place);
  const store = storeOn(place);
  const apply = await joined(store);
  await apply({ op: 'reserve', key: 'k' });
  await store.close();
  await desk.link.ask(`STREAM.PURGE.${place.stream}`, { keep: 1 });

  const late = storeOn(place, { timeoutMs: 400 });
  const again = await joined(late, 'b');
  await again({ op: 'reserve', key: 'k' });

  expect(await late.inspect()).toMatchObject({ quarantined: true, queues: [{ key: 'k', head: { fence: 0 } }] });
  await late.close();
});

test('a snapshot that is not whole, and a mark of nonsense, harm nobody', async () => {
  const place = freshPlace();
  await desk.bear(place);
  const store = storeOn(place);
  const apply = await joined(store);
  const [seq] = await apply({ op: 'reserve', key: 'k' });
  const text = new TextEncoder();
  await desk.link.put(`${place.prefix}.snap`, text.encode('half'));
  const mark = { version: 1, seq: 2, chunks: [4, 9], bytes: 9, read: 3, sha256: 'no' };
  await desk.link.put(`${place.prefix}.mark`, text.encode(JSON.stringify(mark)));

  const late = storeOn(place);

  expect((await late.inspect()).queues).toMatchObject([{ key: 'k', head: { seq } }]);
  await Promise.all([store.close(), late.close()]);
});

test('messages of the log cannot be deleted one by one', async () => {
  const place = freshPlace();
  await desk.bear(place);

  await expect(desk.link.ask(`STREAM.MSG.DELETE.${place.stream}`, { seq: 1 })).rejects.toThrow(/not permitted/);
});

test('ten replicas that start at once make one stream and one beginning, and none is superseded', async () => {
  const namespace = randomUUID();
  const told: string[] = [];
  const replicas = Array.from({ length: 10 }, () => {
    const replica = new NatsCoordinator({ url: server.url, namespace, leaseMs: 1500 });
    replica.on('superseded', () => told.push('superseded'));
    return replica;
  });

  await Promise.all(replicas.map((replica) => replica.start()));
  const tickets = await Promise.all(replicas.map((replica) => replica.reserve('chat')));
  const fences: number[] = [];
  await Promise.all(
    replicas.map(async (replica, at) => {
      const turn = await replica.acquireTurn(tickets[at]!);
      fences.push(turn.fence);
      await turn.release();
    }),
  );

  expect(fences).toEqual([...fences].sort((a, b) => a - b));
  expect(told).toEqual([]);
  const found = await desk.link.ask<{ message: { seq: number } }>(`STREAM.MSG.GET.BOTMESH_${namespace}_0`, {
    last_by_subj: `botmesh.${namespace}.0.born`,
  });
  expect(found.message.seq).toBe(1);
  await Promise.all(replicas.map((replica) => replica.stop()));
}, 60_000);

test('a stream that was deleted is made anew by who is left, under another epoch', async () => {
  const namespace = randomUUID();
  const replica = new NatsCoordinator({ url: server.url, namespace, leaseMs: 1500 });
  let superseded = 0;
  replica.on('superseded', () => {
    superseded += 1;
  });
  await replica.start();
  await desk.remove(placeOf(namespace, 0));

  await until('it has joined again', () => superseded === 1, 10_000);

  const turn = await replica.acquireTurn(await replica.reserve('chat'));
  await turn.release();
  await replica.stop();
}, 30_000);
