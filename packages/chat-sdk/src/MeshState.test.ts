import { MemoryStateStore } from '@botmesh/core';
import { MemoryCoordinator, MemoryMesh } from '@botmesh/core/testing';
import type { Message, QueueEntry } from 'chat';
import { afterEach, expect, test } from 'vitest';
import { type CurrentTurn, runInTurn } from './current.js';
import { MeshState } from './MeshState.js';

const open: MeshState[] = [];

afterEach(async () => {
  for (const state of open.splice(0)) await state.disconnect();
});

/** Replicas that share a mesh and a store. */
async function replicas(count: number): Promise<[MeshState, MeshState, ...MeshState[]]> {
  const mesh = new MemoryMesh();
  const store = new MemoryStateStore();
  for (let n = 0; n < count; n++) {
    const state = new MeshState({ coordinator: new MemoryCoordinator({ mesh }), store });
    await state.connect();
    open.push(state);
  }
  return open as unknown as [MeshState, MeshState];
}

const crash = (state: MeshState): void => (state.coordinator as MemoryCoordinator).crash();
const entry = (id: string): QueueEntry => ({
  enqueuedAt: 1,
  expiresAt: 2,
  message: { id } as unknown as Message,
});

test('a value is kept until its time to live is over, and set only once by setIfNotExists', async () => {
  const [a, b] = await replicas(2);

  await a.set('k', { n: 1 });
  await a.set('short', 1, 20);

  expect(await b.get('k')).toEqual({ n: 1 });
  expect(await b.setIfNotExists('k', 2)).toBe(false);
  await new Promise((resolve) => setTimeout(resolve, 40));
  expect(await b.get('short')).toBeNull();
  expect(await b.setIfNotExists('short', 2, 1_000)).toBe(true);
  await b.delete('k');
  expect(await a.get('k')).toBeNull();
});

test('of a hundred that set a value at once on three replicas, one sets it', async () => {
  const states = await replicas(3);

  const set = await Promise.all(
    Array.from({ length: 100 }, (_, n) => states[n % 3]!.setIfNotExists('first', n, 60_000)),
  );

  expect(set.filter(Boolean)).toHaveLength(1);
});

test('what three replicas append at once is all there, and the newest are kept', async () => {
  const states = await replicas(3);

  await Promise.all(Array.from({ length: 30 }, (_, n) => states[n % 3]!.appendToList('list', n)));
  await states[0]!.appendToList('short', 1, { maxLength: 2 });
  await states[1]!.appendToList('short', 2, { maxLength: 2 });
  await states[0]!.appendToList('short', 3, { maxLength: 2 });

  expect((await states[1]!.getList<number>('list')).toSorted((a, b) => a - b)).toEqual(
    Array.from({ length: 30 }, (_, n) => n),
  );
  expect(await states[1]!.getList('short')).toEqual([2, 3]);
  expect(await states[0]!.getList('none')).toEqual([]);
});

test('a queue gives out in order what was put in, once, whoever asks', async () => {
  const states = await replicas(3);

  for (const id of ['1', '2', '3']) await states[0]!.enqueue('t', entry(id), 10);
  const depth = await states[1]!.queueDepth('t');
  const got = await Promise.all(Array.from({ length: 5 }, (_, n) => states[n % 3]!.dequeue('t')));

  expect(depth).toBe(3);
  expect(got.flatMap((each) => (each === null ? [] : [each.message.id])).toSorted()).toEqual(['1', '2', '3']);
  expect(await states[0]!.enqueue('t', entry('4'), 1)).toBe(1);
  expect(await states[0]!.enqueue('t', entry('5'), 1)).toBe(1);
  expect((await states[2]!.dequeue('t'))?.message.id).toBe('5');
});

test('a subscription holds for all replicas until it is ended', async () => {
  const [a, b] = await replicas(2);

  await a.subscribe('t');
  const subscribed = await b.isSubscribed('t');
  await b.unsubscribe('t');

  expect(subscribed).toBe(true);
  expect(await a.isSubscribed('t')).toBe(false);
});

test('one replica at a time has a lock, and the next at once when it is released', async () => {
  const [a, b] = await replicas(2);

  const lock = await a.acquireLock('t', 30_000);

  expect(await b.acquireLock('t', 30_000)).toBeNull();
  expect(await a.acquireLock('t', 30_000)).toBeNull();
  expect(await a.extendLock(lock!, 30_000)).toBe(true);
  await a.releaseLock(lock!);
  expect(await a.extendLock(lock!, 30_000)).toBe(false);
  expect(await b.acquireLock('t', 30_000)).not.toBeNull();
});

test('a lock ends when its time to live is over, and extending keeps it', async () => {
  const [a, b] = await replicas(2);
  const lock = await a.acquireLock('t', 60);
  const kept = await a.acquireLock('u', 60);
  await a.extendLock(kept!, 10_000);

  await new Promise((resolve) => setTimeout(resolve, 120));

  expect(await a.extendLock(lock!, 60)).toBe(false);
  expect(await b.acquireLock('t', 1_000)).not.toBeNull();
  expect(await b.acquireLock('u', 1_000)).toBeNull();
});

test('a lock of a replica that died is free, and its late owner is told so', async () => {
  const [a, b] = await replicas(2);
  const lock = await a.acquireLock('t', 30_000);

  crash(a);

  expect(await b.acquireLock('t', 30_000)).not.toBeNull();
  expect(await a.extendLock(lock!, 30_000).catch(() => false)).toBe(false);
});

test('a lock that is forced away from another replica is free at once, and its owner’s release frees nobody else', async () => {
  const [a, b] = await replicas(2);
  const old = await a.acquireLock('t', 30_000);

  await b.forceReleaseLock('t');
  const taken = await b.acquireLock('t', 30_000);

  expect(taken).not.toBeNull();
  expect(await a.extendLock(old!, 30_000)).toBe(false);
  await a.releaseLock(old!);
  expect(await b.extendLock(taken!, 30_000)).toBe(true);
  expect(await a.acquireLock('t', 30_000)).toBeNull();
});

test('a turn that is lost writes nothing, and takes no lock', async () => {
  const [a] = await replicas(1);
  const lost: CurrentTurn = {
    attempt: 1,
    isMark: () => false,
    mark: () => true,
    assertHeld() {
      throw new Error('lost');
    },
  };

  await runInTurn(lost, async () => {
    await expect(a.set('k', 1)).rejects.toThrow('lost');
    await expect(a.appendToList('l', 1)).rejects.toThrow('lost');
    await expect(a.subscribe('t')).rejects.toThrow('lost');
    await expect(a.acquireLock('t', 1_000)).rejects.toThrow('lost');
  });

  expect(await a.get('k')).toBeNull();
  expect(await a.getList('l')).toEqual([]);
});

test('a value that does not serialise is refused by name, without its contents', async () => {
  const [a] = await replicas(1);
  const circle: { self?: unknown } = {};
  circle.self = circle;

  await expect(a.set('thread-state:ana', circle)).rejects.toMatchObject({
    code: 'bad-input',
    message: "state entry 'thread-state:…': the value does not serialise, expected JSON data.",
  });
  await expect(a.set('k', undefined)).rejects.toMatchObject({ code: 'bad-input' });
  for (const lost of [{ f() {} }, { list: [new Map([[1, 2]])] }, { set: new Set([1]) }, { late: Promise.resolve(1) }]) {
    await expect(a.set('k', lost)).rejects.toMatchObject({ code: 'bad-input' });
  }
  await expect(a.appendToList('k', 10n)).rejects.toMatchObject({ code: 'bad-input' });
});

test('a call before connect() is refused, and so are options that cannot work', async () => {
  const coordinator = new MemoryCoordinator();
  const store = new MemoryStateStore();

  await expect(new MeshState({ coordinator, store }).get('k')).rejects.toMatchObject({ code: 'not-started' });
  expect(() => new MeshState({ coordinator } as never)).toThrow('store is undefined');
  expect(() => new MeshState({ coordinator: {} as never, store })).toThrow('without reserve()');
  expect(() => new MeshState({ coordinator, store, ttl: 1 } as never)).toThrow("no option 'ttl'");
});
