import { randomUUID } from 'node:crypto';
import { afterAll, expect, test } from 'vitest';
import { openServer, START_MS, ToldSchema } from '../testing/told.js';
import { makeClient } from './clients/make-client.js';
import { PostgresStore } from './PostgresStore.js';
import { SharedClient } from './SharedClient.js';

const server = await openServer();
const schema = await ToldSchema.open(server.url);
afterAll(async () => {
  await schema[Symbol.asyncDispose]();
  await server.close();
});

/** A replica in a mesh of its own, and how many blocks a hand-over to itself reads. */
async function openReplica() {
  const namespace = randomUUID();
  await schema.bear(namespace, 0);
  const client = schema.at(() => START_MS);
  const options = { schema: schema.name, namespace, shard: 0, synchronousCommit: false, lockMs: 5_000, pollMs: 250 };
  let asked: readonly [string, readonly (string | null)[]] = ['', []];
  const watched = {
    ...(await client.get({})),
    call: async (text: string, values: readonly (string | null)[]) => {
      asked = [text, values];
      return (await client.get({})).call(text, values);
    },
  };
  const store = new PostgresStore({ client: new SharedClient(watched), ...options });
  const instance = randomUUID();
  const config = { format: 1, leaseMs: 60_000, shards: 1 };
  const joined = await store.join({ instance, replicaId: 'a', firstEpoch: 0, adopts: true, seen: 0, config });
  if (joined.kind !== 'joined') throw new Error(joined.kind);
  const { epoch } = joined;
  let batch = 0;
  const reserve = async (): Promise<number> => {
    const answer = await store.apply({ epoch, instance, batch: ++batch, ops: [{ op: 'reserve', key: 'hot' }] });
    return answer.kind === 'applied' ? answer.results[0]!.seq : 0;
  };
  const queue = [await reserve(), await reserve()];
  return {
    handOver: async (): Promise<void> => {
      const ops = [{ op: 'release', key: 'hot', seq: queue.shift()!, how: 'done' }] as const;
      await store.apply({ epoch, instance, batch: ++batch, ops });
      queue.push(await reserve());
    },
    /** Of the last step, made once more under the next number. */
    blocks: async (): Promise<number> => {
      const [text, values] = asked;
      const again = values.map((value) => (value === String(batch) ? String(batch + 1) : value));
      batch += 1;
      const told = `from (select pg_catalog.set_config('botmesh.now_ms', '${START_MS}', true) offset 0) told`;
      const plan = await schema.client.call(`explain (analyze, buffers, format json) ${text} ${told}`, again);
      const [{ Plan }] = JSON.parse(plan!) as [{ Plan: Record<string, number> }];
      return Plan['Shared Hit Blocks']! + Plan['Shared Read Blocks']!;
    },
  };
}

test('while a transaction stays open, a step reads no more the more turns there were', async () => {
  const replica = await openReplica();
  for (let turn = 0; turn < 20; turn++) await replica.handOver();
  const before = await replica.blocks();
  const other = makeClient({ url: server.url, schema: schema.name, timeoutMs: 60_000, connectTimeoutMs: 10_000 });
  await other.open();
  try {
    // Holds a snapshot for as long as it sleeps.
    const open = other.call('select pg_catalog.pg_sleep(30)', []).catch(() => {});
    for (let turn = 0; turn < 500; turn++) await replica.handOver();
    expect(await replica.blocks()).toBeLessThan(2 * before);
    await other.close();
    await open;
  } finally {
    await other.close();
  }
}, 60_000);
