import { describe, expect, test } from 'vitest';
import { MemoryCoordinator } from '../coordination/MemoryCoordinator.js';
import { BadInputError, ConfigError, LeaseLostError } from '../errors.js';
import { MemoryMesh } from './MemoryMesh.js';
import { VirtualClock } from './VirtualClock.js';

const LEASE_MS = 12_000;

/** Runs `body` in virtual time with a mesh of two started replicas, and stops them after it. */
async function inMesh(
  body: (lab: { clock: VirtualClock; mesh: MemoryMesh; a: MemoryCoordinator; b: MemoryCoordinator }) => Promise<void>,
): Promise<void> {
  const clock = new VirtualClock();
  const mesh = new MemoryMesh({ clock });
  const [a, b] = [new MemoryCoordinator({ mesh, replicaId: 'a' }), new MemoryCoordinator({ mesh, replicaId: 'b' })];
  await clock.run(async () => {
    await a.start();
    await b.start();
    await body({ clock, mesh, a, b });
    mesh.heal(a);
    mesh.thaw(a);
    // What a thaw lets go takes a macrotask each.
    await clock.sleep(1);
    await Promise.all([a.stop(), b.stop()]);
  });
  expect(mesh.listeners).toBe(0);
  expect(clock.pending).toBe(0);
}

const take = async (coordinator: MemoryCoordinator, key: string) =>
  coordinator.acquireTurn(await coordinator.reserve(key));

describe('MemoryMesh', () => {
  test('a crash counts at once, and every signal of the crashed aborts with expired', () =>
    inMesh(async ({ clock, mesh, a, b }) => {
      for (const crash of [() => a.crash(), () => mesh.crash(a)]) {
        const turn = await take(a, 'k');
        const next = take(b, 'k');
        await clock.sleep(1);
        const crashedMs = clock.monotonicMs();

        crash();

        await (await next).release();
        expect(clock.monotonicMs()).toBe(crashedMs);
        expect(turn.signal.reason).toMatchObject({ name: 'LeaseLostError', reason: 'expired' });
        expect(() => turn.assertHeld()).toThrow(LeaseLostError);
        await expect(a.start()).rejects.toMatchObject({ code: 'stopped' });
        a = new MemoryCoordinator({ mesh, replicaId: 'a' });
        await a.start();
      }
      await a.stop();
    }));

  test('a frozen replica does nothing, and its key goes on when its lease is over', () =>
    inMesh(async ({ clock, mesh, a, b }) => {
      const turn = await take(a, 'k');
      const next = take(b, 'k');
      await clock.sleep(1);
      const beats = mesh.counts(a).requests.beat;

      mesh.freeze(a);
      await next;

      expect(mesh.counts(a).requests.beat).toBe(beats);
      expect(clock.monotonicMs()).toBeGreaterThan(LEASE_MS);
      mesh.thaw(a);
      expect(() => turn.assertHeld()).toThrow(LeaseLostError);
    }));

  test('a fault befalls the replica it names and no other', () =>
    inMesh(async ({ clock, mesh, a, b }) => {
      mesh.cut(a);
      mesh.delay(a, { minMs: 50, maxMs: 50 });
      mesh.loseAnswers(a, 1);
      mesh.dropPushes(a, 1);
      mesh.stepWall(a, 60_000);

      await (await take(b, 'k')).release();

      expect(clock.monotonicMs()).toBe(0);
      mesh.delay(a, { minMs: 0, maxMs: 0 });
      mesh.loseAnswers(a, 0);
    }));

  test('a coordinator of another mesh is refused by name', () =>
    inMesh(async ({ mesh, a }) => {
      const other = new MemoryMesh();

      expect(() => other.freeze(a)).toThrow(BadInputError);
      expect(() => other.crash(a)).toThrow('The coordinator a is not of this mesh');
      expect(() => mesh.cut(undefined as never)).toThrow(BadInputError);
    }));

  test('a number of shards that cannot be is refused', () => {
    for (const shards of [0, -1, 1.5, Number.NaN]) expect(() => new MemoryMesh({ shards })).toThrow(ConfigError);
    expect(() => new MemoryMesh({ seed: 'x' as never })).toThrow(ConfigError);
    expect(() => new MemoryMesh(null as never)).toThrow(ConfigError);
    expect(() => new MemoryMesh({ shard: 2 } as never)).toThrow(/no option 'shard'/);
  });

  test('what was put down in a snapshot is all that a rollback leaves', () =>
    inMesh(async ({ mesh, a }) => {
      await take(a, 'before');
      const snapshot = mesh.snapshot();
      await take(a, 'after');

      mesh.rollback(snapshot);

      const [view] = await mesh.inspect();
      expect(view?.queues.map(({ key }) => key)).toEqual([expect.stringContaining('before')]);
    }));

  test('the same seed gives the same run, whatever chance decides', async () => {
    const run = async (seed: number): Promise<unknown> => {
      const clock = new VirtualClock({ seed });
      const mesh = new MemoryMesh({ clock, seed });
      const coordinators = ['a', 'b'].map((replicaId) => new MemoryCoordinator({ mesh, replicaId }));
      const granted: unknown[] = [];
      await clock.run(async () => {
        for (const coordinator of coordinators) {
          await coordinator.start();
          mesh.loseAnswers(coordinator, 0.3);
          mesh.delay(coordinator, { minMs: 1, maxMs: 40 });
        }
        const jobs = Array.from({ length: 20 }, async (_, n) => {
          const turn = await take(coordinators[n % 2]!, `k${n % 3}`);
          granted.push([n, turn.fence, clock.monotonicMs()]);
          await turn.release();
        });
        await Promise.all(jobs);
        await Promise.all(coordinators.map((coordinator) => coordinator.stop()));
      });
      return granted;
    };

    expect(await run(5)).toEqual(await run(5));
    expect(await run(5)).not.toEqual(await run(6));
  });
});
