import { getEventListeners, setMaxListeners } from 'node:events';
import { setImmediate as nextTask } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { describe, expect, test } from 'vitest';
import { MemoryMesh } from '../testing/MemoryMesh.js';
import { VirtualClock } from '../testing/VirtualClock.js';
import { MemoryCoordinator, type MemoryCoordinatorOptions } from './MemoryCoordinator.js';

const CHATS = 10_000;
const BEAT_MS = 2_000;

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as () => void;

interface Lab {
  readonly clock: VirtualClock;
  readonly mesh: MemoryMesh;
  readonly coordinator: MemoryCoordinator;
}

/** Runs `body` with one started replica in virtual time, then checks that nothing is left, stops it, and checks again. */
async function leavingNothing(options: MemoryCoordinatorOptions, body: (lab: Lab) => Promise<void>): Promise<void> {
  const clock = new VirtualClock();
  const mesh = new MemoryMesh({ clock });
  const coordinator = new MemoryCoordinator({ mesh, ...options });
  await clock.run(async () => {
    await coordinator.start();
    await clock.sleep(BEAT_MS);
    const timersOfHeartbeats = clock.pending;
    const listeners = mesh.listeners;

    await body({ clock, mesh, coordinator });
    // The one timer that guards all batches in flight ends by itself.
    await clock.sleep(BEAT_MS);

    const [view] = await mesh.inspect();
    expect(view).toMatchObject({ queues: [], parked: [], remembered: 0 });
    expect(view?.replicas.map(({ tickets }) => tickets)).toEqual([0]);
    expect(clock.pending).toBe(timersOfHeartbeats);
    expect(mesh.listeners).toBe(listeners);
    await coordinator.stop();
  });
  expect(clock.pending).toBe(0);
  expect(mesh.listeners).toBe(0);
  expect((await mesh.inspect())[0]?.replicas).toEqual([]);
}

const chats = Array.from({ length: CHATS }, (_, at) => `chat-${at}`);

/** A signal that many wait with at once: Node would warn of that. */
function longLived(): AbortSignal {
  const { signal } = new AbortController();
  setMaxListeners(0, signal);
  return signal;
}

async function useTurn(coordinator: MemoryCoordinator, chat: string): Promise<void> {
  const turn = await coordinator.acquireTurn(await coordinator.reserve(chat));
  await turn.release();
}

describe('10,000 chats that were used and are done leave no key, no ticket, no timer, no listener', () => {
  test('when each had a turn', () =>
    leavingNothing({}, async ({ coordinator }) => {
      await Promise.all(chats.map((chat) => useTurn(coordinator, chat)));
    }));

  test('when each had a message', () =>
    leavingNothing({}, async ({ coordinator }) => {
      const handle = async (chat: string): Promise<void> => {
        const ticket = await coordinator.accept(chat, { body: 'hello' });
        await (await coordinator.acquireTurn(ticket!)).release();
      };
      await Promise.all(chats.map(handle));
    }));

  test('when each had a message with an id, once dedupeMs has passed', () =>
    leavingNothing({ dedupeMs: 1_000 }, async ({ clock, coordinator }) => {
      const handle = async (chat: string): Promise<void> => {
        const ticket = await coordinator.accept(chat, { id: 'a', body: 'hello' });
        await (await coordinator.acquireTurn(ticket!)).release();
      };
      await Promise.all(chats.map(handle));
      await clock.sleep(20 * BEAT_MS);
    }));

  test('when their tickets were withdrawn unused', () =>
    leavingNothing({}, async ({ coordinator }) => {
      const signal = AbortSignal.abort();
      const tickets = await Promise.all(chats.map((chat) => coordinator.reserve(chat)));
      await Promise.allSettled(tickets.map((ticket) => coordinator.acquireTurn(ticket, { signal })));
    }));

  test('when their tickets were forgotten, once ticketTtlMs has passed', () =>
    leavingNothing({ ticketTtlMs: 300 }, async ({ clock, coordinator }) => {
      await Promise.all(chats.map((chat) => coordinator.reserve(chat)));
      await clock.sleep(1_000);
    }));

  test('when their acquires timed out behind another ticket', () =>
    leavingNothing({}, async ({ coordinator }) => {
      const turn = await coordinator.acquireTurn(await coordinator.reserve('busy'));
      const waits = chats.map(async () =>
        coordinator.acquireTurn(await coordinator.reserve('busy'), { timeoutMs: 50 }),
      );
      const ends = await Promise.allSettled(waits);
      await turn.release();

      expect(ends.filter(({ status }) => status === 'fulfilled')).toEqual([]);
    }));

  test('when each was led', () =>
    leavingNothing({}, async ({ coordinator }) => {
      await Promise.all(chats.map(async (name) => (await coordinator.lead(name)).resign()));
    }));

  test('when each was tried to be led while another led it', () =>
    leavingNothing({}, async ({ coordinator }) => {
      const leadership = await coordinator.lead('name');
      const tries = await Promise.all(chats.map(() => coordinator.tryLead('name')));
      await leadership.resign();

      expect(tries.filter((each) => each !== null)).toEqual([]);
    }));
});

describe('A signal that lives long keeps no listener', () => {
  test('of 10,000 acquires and campaigns that were granted', () =>
    leavingNothing({}, async ({ coordinator }) => {
      const signal = longLived();
      const use = async (chat: string): Promise<void> => {
        const turn = await coordinator.acquireTurn(await coordinator.reserve(chat), { signal, timeoutMs: 60_000 });
        await turn.release();
      };
      // Half of them are granted at once, half have to wait.
      await Promise.all(chats.map((_, at) => use(`chat-${at % (CHATS / 2)}`)));
      await Promise.all(chats.slice(0, 100).map(async (name) => (await coordinator.lead(name, { signal })).resign()));

      expect(getEventListeners(signal, 'abort')).toEqual([]);
    }));

  test('of 2,000 acquires that timed out, or lost their place when the replica stopped', () =>
    leavingNothing({}, async ({ mesh, coordinator }) => {
      const other = new MemoryCoordinator({ mesh });
      await other.start();
      const signal = longLived();
      const turn = await coordinator.acquireTurn(await coordinator.reserve('busy'));
      const half = chats.slice(0, 1_000);
      const wait = async (who: MemoryCoordinator, timeoutMs: number): Promise<void> => {
        await who.acquireTurn(await who.reserve('busy'), { signal, timeoutMs });
      };
      const timedOut = Promise.allSettled(half.map(() => wait(coordinator, 10)));
      const stopped = Promise.allSettled(half.map(() => wait(other, 1_000_000)));
      await timedOut;
      await other.stop();
      await stopped;
      await turn.release();

      expect(getEventListeners(signal, 'abort')).toEqual([]);
    }));
});

describe('A replica that is gone leaves nothing', () => {
  test('after stop(): no timer, also with short ticket limits and work under way', async () => {
    const clock = new VirtualClock();
    const mesh = new MemoryMesh({ clock });
    const coordinator = new MemoryCoordinator({ mesh, ticketTtlMs: 300 });
    await clock.run(async () => {
      await coordinator.start();
      await coordinator.acquireTurn(await coordinator.reserve('held'));
      const waiting = coordinator.acquireTurn(await coordinator.reserve('held'), { timeoutMs: 60_000 });
      const forgotten = coordinator.reserve('other');
      const ends = Promise.allSettled([waiting, forgotten]);
      await coordinator.stop();
      await ends;
    });

    expect(clock.pending).toBe(0);
    expect(mesh.listeners).toBe(0);
  });

  test('after stop() while a heartbeat is under way: no timer', async () => {
    const clock = new VirtualClock();
    const mesh = new MemoryMesh({ clock });
    const coordinator = new MemoryCoordinator({ mesh });
    await clock.run(async () => {
      await coordinator.start();
      mesh.delay(coordinator, { minMs: 20, maxMs: 20 });
      await clock.sleep(BEAT_MS + 10);
      // The one that follows the join, and the one under way.
      expect(mesh.counts(coordinator).requests.beat).toBe(2);
      await coordinator.stop();
      // What was on its way arrives.
      await clock.sleep(100);
    });

    expect(clock.pending).toBe(0);
  });

  test('after crash(): no timer, no listener', async () => {
    const clock = new VirtualClock();
    const mesh = new MemoryMesh({ clock });
    const coordinator = new MemoryCoordinator({ mesh });
    await clock.run(async () => {
      await coordinator.start();
      await coordinator.acquireTurn(await coordinator.reserve('held'));
      coordinator.crash();
    });
    await clock.settle();

    expect(clock.pending).toBe(0);
    expect(mesh.listeners).toBe(0);
  });

  test('after stop() on the real clock: nothing keeps the process running', async () => {
    const before = process.getActiveResourcesInfo().length;
    const coordinator = new MemoryCoordinator();
    await coordinator.start();
    await Promise.all(chats.slice(0, 100).map((chat) => useTurn(coordinator, chat)));
    expect(process.getActiveResourcesInfo().length).toBeGreaterThan(before);
    await coordinator.stop();

    expect(process.getActiveResourcesInfo().length).toBeLessThanOrEqual(before);
  });

  test('after stop(): coordinators are collected, though their mesh lives on', async () => {
    const mesh = new MemoryMesh();
    const makeAndStop = async (): Promise<WeakRef<MemoryCoordinator>> => {
      const coordinator = new MemoryCoordinator({ mesh });
      await coordinator.start();
      await useTurn(coordinator, 'chat');
      coordinator.on('lost', () => {});
      await coordinator.stop();
      return new WeakRef(coordinator);
    };
    const gone = await Promise.all(Array.from({ length: 20 }, makeAndStop));
    let left = gone;
    // What a task has looked at stays until it ends, and one pass of the collector need not find everything.
    for (let pass = 0; pass < 10 && left.length > 0; pass++) {
      await nextTask();
      collectGarbage();
      left = left.filter((ref) => ref.deref() !== undefined);
    }

    expect(left).toEqual([]);
    expect(mesh.listeners).toBe(0);
  });
});

test('100,000 turns leave the heap as large as the first of them', async () => {
  const coordinator = new MemoryCoordinator();
  await coordinator.start();
  const heapBytes: number[] = [];
  const batch = 10_000;
  for (let round = 0; round < 10; round++) {
    const caller = async (_: unknown, lane: number): Promise<void> => {
      for (let at = lane; at < batch; at += 50) await useTurn(coordinator, `chat-${at}`);
    };
    await Promise.all(Array.from({ length: 50 }, caller));
    collectGarbage();
    collectGarbage();
    heapBytes.push(process.memoryUsage().heapUsed);
  }
  await coordinator.stop();

  // Least squares over the second half, when all code is warm. The smallest object kept for each turn is larger.
  const bytesPerTurn = slope(heapBytes.slice(4)) / batch;
  expect(bytesPerTurn).toBeLessThan(16);
}, 60_000);

/** What each value is greater than the one before it, on the whole. */
function slope(values: readonly number[]): number {
  const middle = (values.length - 1) / 2;
  const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
  const over = values.reduce((sum, value, at) => sum + (at - middle) * (value - mean), 0);
  const under = values.reduce((sum, _, at) => sum + (at - middle) ** 2, 0);
  return over / under;
}
