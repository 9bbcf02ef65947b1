import { expect, test } from 'vitest';
import { MemoryMesh } from '../testing/MemoryMesh.js';
import { VirtualClock } from '../testing/VirtualClock.js';
import { MemoryCoordinator } from './MemoryCoordinator.js';
import type { CoordinatorEvents } from './types.js';

async function stoppedBy(
  event: keyof CoordinatorEvents,
  provoke: (mesh: MemoryMesh, replica: MemoryCoordinator, clock: VirtualClock) => Promise<void>,
) {
  const clock = new VirtualClock();
  const mesh = new MemoryMesh({ clock });
  const replica = new MemoryCoordinator({ mesh, replicaId: 'a', maxAttempts: 1 });
  let stopping: Promise<void> | undefined;
  replica.on(event, () => {
    stopping ??= replica.stop();
  });
  await clock.run(async () => {
    await replica.start();
    await provoke(mesh, replica, clock);
    await stopping;
    await clock.sleep(60_000);
    expect(stopping, `${event} was told`).toBeDefined();
    expect((await mesh.inspect())[0]?.replicas).toEqual([]);
    await expect(replica.reserve('k')).rejects.toMatchObject({ code: 'stopped' });
  });
  expect(clock.pending).toBe(0);
  expect(mesh.listeners).toBe(0);
}

test('a listener that stops the replica when a heartbeat came late leaves nothing of it', () =>
  stoppedBy('late', async (mesh, replica, clock) => {
    mesh.freeze(replica);
    await clock.sleep(5_000);
    mesh.thaw(replica);
    await clock.sleep(1_000);
  }));

test('a listener that stops the replica in a quarantine leaves nothing of it', () =>
  stoppedBy('quarantine', async (mesh, _replica, clock) => {
    mesh.restart();
    await clock.sleep(5_000);
  }));

test('a listener that stops the replica when a turn is lost leaves nothing of it', () =>
  stoppedBy('lost', async (mesh, replica, clock) => {
    const copy = mesh.snapshot();
    await replica.acquireTurn(await replica.reserve('k'));
    mesh.rollback(copy);
    await clock.sleep(5_000);
  }));

test('a listener that stops the replica when the backend answers again leaves nothing of it', () =>
  stoppedBy('available', async (mesh, replica, clock) => {
    mesh.cut(replica);
    await clock.sleep(11_000);
    mesh.heal(replica);
    await clock.sleep(5_000);
  }));

test('a steady round trip of more than half a heartbeat is no outage', async () => {
  const clock = new VirtualClock();
  const mesh = new MemoryMesh({ clock });
  const replica = new MemoryCoordinator({ mesh });
  let downs = 0;
  replica.on('unavailable', () => downs++);
  await clock.run(async () => {
    await replica.start();
    mesh.delay(replica, { minMs: 700, maxMs: 750 });
    const turn = await replica.acquireTurn(await replica.reserve('k'));
    await clock.sleep(300_000);

    turn.assertHeld();
    expect(downs).toBe(0);
    mesh.delay(replica, { minMs: 0, maxMs: 0 });
    await replica.stop();
  });
});

test('a crash ends a start() and a stop() that were under way', async () => {
  const clock = new VirtualClock();
  const mesh = new MemoryMesh({ clock });
  await clock.run(async () => {
    const starting = new MemoryCoordinator({ mesh });
    mesh.cut(starting);
    const start = starting.start();
    await clock.sleep(100);
    starting.crash();
    await expect(start).rejects.toMatchObject({ code: 'stopped' });

    const stopping = new MemoryCoordinator({ mesh });
    await stopping.start();
    mesh.cut(stopping);
    const stop = stopping.stop();
    await clock.sleep(100);
    stopping.crash();
    await stop;
  });
});
