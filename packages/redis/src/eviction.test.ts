import type { BeatAnswer, Grant, Op, Taken } from '@botmesh/core/spi';
import { expect, test } from 'vitest';
import { bear, TestServer, until } from '../testing/lab.js';
import { openConnection } from './clients/open-connection.js';
import { RedisCoordinator } from './index.js';
import { tagOf } from './namespace.js';
import { RedisStore } from './RedisStore.js';
import { SharedConnection } from './SharedConnection.js';
import { keysOf } from './script/scripts.js';

const LEASE_MS = 2_000;
const names = keysOf(tagOf('botmesh', 0));

interface Outcome {
  /** Whether another replica was granted the key while its holder still believed in it. */
  readonly wasHeldTwice: boolean;
  /** Of the grants, in order. */
  readonly fences: readonly number[];
}

/** One replica holds a key and another one waits for it, when the server drops `name`. */
async function dropped(name: string): Promise<Outcome> {
  await using server = await TestServer.start({ persistence: 'aof' });
  await bear(server, 'botmesh', 0);
  const open = () => new RedisCoordinator({ url: server.url, leaseMs: LEASE_MS });
  const [a, b] = [open(), open()];
  await Promise.all([a.start(), b.start()]);
  const held = await a.acquireTurn(await a.reserve('chat'));
  let isLetGo = false;
  let wasHeldTwice = false;
  const fences = [held.fence];
  const take = async (who: RedisCoordinator): Promise<true> => {
    const turn = await who.acquireTurn(await who.reserve('chat'), { timeoutMs: LEASE_MS });
    wasHeldTwice ||= !isLetGo && believes(held);
    fences.push(turn.fence);
    await turn.release();
    return true;
  };
  const waiting = take(b).catch(() => {});

  await server.ask('DEL', name);
  // It goes on for as long as it may, or for longer than a lease.
  await until('the holder has lost it', () => !believes(held), 1.5 * LEASE_MS).catch(() => {});
  isLetGo = true;
  await held.release();
  await waiting;
  await until('both take turns again', () => take(a).then(() => take(b)), 30_000);
  await Promise.all([a.stop(), b.stop()]);
  return { wasHeldTwice, fences };
}

function believes(turn: { assertHeld(): void }): boolean {
  try {
    turn.assertHeld();
    return true;
  } catch {
    return false;
  }
}

const isRising = (fences: readonly number[]): boolean => fences.every((fence, at) => fence > (fences[at - 1] ?? 0));

// C-73
test.concurrent.each(names)(
  'a server that drops a key of the mesh makes no two holders, and no fence falls: %s',
  async (name) => {
    const { wasHeldTwice, fences } = await dropped(name);

    expect(wasHeldTwice).toBe(false);
    expect(isRising(fences)).toBe(true);
  },
  90_000,
);

/** One replica, step by step, which adopts and has seen all there is. */
class Stepper implements AsyncDisposable {
  readonly #server: TestServer;
  readonly #store: RedisStore;
  #epoch = 0;
  #batch = 0;
  #beat = 0;

  private constructor(server: TestServer, store: RedisStore) {
    this.#server = server;
    this.#store = store;
  }

  static async start({ adopts }: { adopts: boolean }): Promise<Stepper> {
    const server = await TestServer.start();
    await bear(server, 'botmesh', 0);
    const { url } = server;
    const connection = new SharedConnection(() => openConnection({ url, timeoutMs: 5_000, connectTimeoutMs: 5_000 }));
    const stepper = new Stepper(server, new RedisStore({ connection, namespace: 'botmesh', shard: 0 }));
    const config = { format: 1, leaseMs: 60_000, shards: 1 };
    const request = { replicaId: 'a', instance: 'i', firstEpoch: 0, config, adopts, seen: 0 };
    const answer = await stepper.#store.join(request);
    if (answer.kind !== 'joined') throw new Error(`It was ${answer.kind}.`);
    stepper.#epoch = answer.epoch;
    return stepper;
  }

  async apply(...ops: Op[]): Promise<readonly (Taken | null)[]> {
    const answer = await this.#store.apply({ epoch: this.#epoch, instance: 'i', batch: ++this.#batch, ops });
    if (answer.kind !== 'applied') throw new Error(`It was ${answer.kind}.`);
    return answer.results;
  }

  async beat(view: readonly Grant[], era = 0): Promise<BeatAnswer & { kind: 'alive' }> {
    const rest = { era, watchedMs: 1e9, seen: 0, adopts: true, answered: this.#batch, heard: 0, view };
    const answer = await this.#store.beat({ epoch: this.#epoch, instance: 'i', beat: ++this.#beat, ...rest });
    if (answer.kind !== 'alive') throw new Error(`It was ${answer.kind}.`);
    return answer;
  }

  async drop(name: string): Promise<void> {
    expect(await this.#server.ask('DEL', `${tagOf('botmesh', 0)}:${name}`)).toBe(1);
  }

  async ask(...command: string[]): Promise<unknown> {
    return this.#server.ask(...command);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#store.close();
    await this.#server[Symbol.asyncDispose]();
  }
}

const accept = (key: string, id: string): Op => {
  return { op: 'accept', key, id, body: `text ${id}`, maxAttempts: 5, dedupeMs: 60_000 };
};

// C-73
test('a message whose text was dropped is lost, not handled empty, and its id is taken in again', async () => {
  await using replica = await Stepper.start({ adopts: true });
  const [first, second] = await replica.apply(accept('chat', '1'), accept('chat', '2'));
  const view = [first!, second!].map((taken) => ({ key: 'chat', ...taken }));

  await replica.drop('bodies');
  const { lost, quarantined, news } = await replica.beat(view);
  const [again] = await replica.apply(accept('chat', '1'));

  expect({ lost, quarantined, adopted: news.adopted }).toEqual({ lost: view, quarantined: true, adopted: [] });
  expect(again).toMatchObject({ fence: 0 });
});

test('a message that nobody owns is found although the list of such messages was dropped', async () => {
  await using replica = await Stepper.start({ adopts: false });
  const [taken] = await replica.apply(accept('chat', '1'));
  await replica.apply({ op: 'release', key: 'chat', seq: taken!.seq, how: 'return' });

  await replica.drop('orphans');
  const { era, quarantined } = await replica.beat([]);
  const { news } = await replica.beat([], era);

  expect(quarantined).toBe(true);
  expect(news.adopted).toMatchObject([{ key: 'chat', id: '1', body: 'text 1' }]);
});

test('what waits comes to the head although the heads were dropped', async () => {
  await using replica = await Stepper.start({ adopts: true });
  const [first, second] = await replica.apply(accept('chat', '1'), accept('chat', '2'));
  const view = [first!, second!].map((taken) => ({ key: 'chat', ...taken }));

  await replica.drop('heads');
  const { era, lost } = await replica.beat(view);
  const { news } = await replica.beat(view.slice(1), era);

  expect(lost).toEqual(view.slice(0, 1));
  expect(news.grants).toMatchObject([{ key: 'chat', seq: second!.seq }]);
});

test('a place that was taken out of a key by hand is lost to its owner with the next heartbeat', async () => {
  await using replica = await Stepper.start({ adopts: true });
  const [first, second] = await replica.apply({ op: 'reserve', key: 'chat' }, { op: 'reserve', key: 'other' });
  const view = [
    { key: 'chat', ...first! },
    { key: 'other', ...second! },
  ];

  await replica.ask('HDEL', `${tagOf('botmesh', 0)}:heads`, 'chat');
  const { lost, quarantined } = await replica.beat(view);

  expect({ lost, quarantined }).toEqual({ lost: view.slice(0, 1), quarantined: false });
});
