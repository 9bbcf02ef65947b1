import { expect, test } from 'vitest';
import { MemoryMesh } from '../testing/MemoryMesh.js';
import { VirtualClock } from '../testing/VirtualClock.js';
import { MemoryCoordinator } from './MemoryCoordinator.js';

function replicaOnItsOwn() {
  const clock = new VirtualClock();
  const mesh = new MemoryMesh({ clock });
  const replica = new MemoryCoordinator({ mesh, replicaId: 'a' });
  return { clock, mesh, replica };
}

test('a start that was stopped before its answer came does not end the next start', async () => {
  const { clock, mesh, replica } = replicaOnItsOwn();
  mesh.loseAnswers(replica, { next: 1, of: 'join' });

  await clock.run(async () => {
    const first = replica.start().catch((error: unknown) => error);
    await clock.sleep(400);
    await replica.stop();
    await replica.start();
    await first;
    await clock.sleep(5000);

    expect((await replica.reserve('k')).key).toBe('k');
    await replica.stop();
  });
});

test('start, stop, start and stop without waiting leave nothing that runs', async () => {
  const { clock, mesh, replica } = replicaOnItsOwn();

  await clock.run(async () => {
    const calls = [replica.start(), replica.stop(), replica.start(), replica.stop()];
    await Promise.allSettled(calls);
    await clock.sleep(5000);

    expect((await mesh.inspect())[0]?.replicas).toEqual([]);
    await expect(replica.reserve('k')).rejects.toMatchObject({ name: 'LifecycleError' });
  });
  expect(clock.pending).toBe(0);
});

test('a ticket used while its replica leaves tells so', async () => {
  const { clock, mesh, replica } = replicaOnItsOwn();

  await clock.run(async () => {
    await replica.start();
    const ticket = await replica.reserve('k');
    mesh.loseAnswers(replica, { next: 1, of: 'leave' });
    const stopping = replica.stop();
    await clock.sleep(1);

    await expect(replica.acquireTurn(ticket)).rejects.toMatchObject({ code: 'lease-lost', reason: 'stopped' });
    await stopping;
    await expect(replica.acquireTurn(ticket)).rejects.toMatchObject({ code: 'lease-lost', reason: 'stopped' });
  });
});

test('a place taken while its replica leaves is not granted to its next start', async () => {
  const { clock, mesh, replica } = replicaOnItsOwn();
  const other = new MemoryCoordinator({ mesh, replicaId: 'b' });

  await clock.run(async () => {
    await Promise.all([replica.start(), other.start()]);
    mesh.loseAnswers(replica, { next: 1, of: 'apply' });
    const reserving = replica.reserve('k');
    await clock.sleep(1);
    const stopping = replica.stop();
    const ticket = await reserving;
    const acquiring = replica.acquireTurn(ticket).catch((error: unknown) => error);
    await stopping;
    await replica.start();
    const turn = await other.acquireTurn(await other.reserve('k'));

    expect(await acquiring).toMatchObject({ code: 'lease-lost', reason: 'stopped' });
    turn.assertHeld();
    await Promise.all([replica.stop(), other.stop()]);
  });
});

test('a grant heard of after a pause is not believed although a store that was set back confirms it', async () => {
  const clock = new VirtualClock();
  const mesh = new MemoryMesh({ clock });
  const [sleeper, other] = ['a', 'b'].map((replicaId) => new MemoryCoordinator({ mesh, replicaId }));
  if (sleeper === undefined || other === undefined) throw new Error('No replicas.');

  await clock.run(async () => {
    await Promise.all([sleeper.start(), other.start()]);
    const held = await other.acquireTurn(await other.reserve('k'));
    const waiting = sleeper.acquireTurn(await sleeper.reserve('k'));
    mesh.freeze(sleeper);
    await held.release();
    await clock.sleep(12_000);
    const copy = mesh.snapshot();
    const later = await other.acquireTurn(await other.reserve('k'));
    await later.release();
    mesh.rollback(copy);
    mesh.thaw(sleeper);
    // It notices its lapse before it hears of the grant, and beats after that.
    sleeper.reserve('other').catch(() => {});

    expect((await waiting).fence).toBeGreaterThan(later.fence);
    await Promise.all([sleeper.stop(), other.stop()]);
  });
});

test('an older start whose answer was lost does not take the name back from a newer one', async () => {
  const { clock, mesh, replica: older } = replicaOnItsOwn();
  const newer = new MemoryCoordinator({ mesh, replicaId: 'a' });
  mesh.loseAnswers(older, { next: 1, of: 'join' });

  await clock.run(async () => {
    const starting = older.start().catch((error: unknown) => error);
    await clock.sleep(500);
    await newer.start();
    await clock.sleep(10_000);

    expect(await starting).toMatchObject({ code: 'lease-lost', reason: 'replaced' });
    expect((await newer.reserve('k')).key).toBe('k');
    await Promise.all([older.stop(), newer.stop()]);
  });
});
