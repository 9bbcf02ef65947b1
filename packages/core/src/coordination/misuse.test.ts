import { expect, test } from 'vitest';
import { BadInputError, ConfigError, CoordinationUnavailableError } from '../errors.js';
import { MemoryMesh } from '../testing/MemoryMesh.js';
import { VirtualClock } from '../testing/VirtualClock.js';
import { MemoryCoordinator } from './MemoryCoordinator.js';
import { StoreCoordinator } from './StoreCoordinator.js';

/** As somebody without types would write it. */
const untyped = (value: unknown): never => value as never;

async function inMesh(act: (replica: MemoryCoordinator, mesh: MemoryMesh, clock: VirtualClock) => Promise<void>) {
  const clock = new VirtualClock();
  const mesh = new MemoryMesh({ clock });
  const replica = new MemoryCoordinator({ mesh });
  await clock.run(async () => {
    await replica.start();
    await act(replica, mesh, clock);
    await replica.stop();
  });
}

test('options that are none, or that do not exist, are a ConfigError', () => {
  for (const options of [null, 'x']) {
    expect(() => new MemoryCoordinator(untyped(options))).toThrow(ConfigError);
    expect(() => new StoreCoordinator(untyped(options))).toThrow(ConfigError);
  }
  expect(() => new MemoryCoordinator(untyped({ leaseMS: 3000 }))).toThrow(/no option 'leaseMS'.*leaseMs/);
  expect(() => new StoreCoordinator(untyped({ stores: [], shards: 1 }))).toThrow(/no option 'shards'/);
});

test('a number of shards that the mesh does not have names the mesh as what decides', () => {
  const mesh = new MemoryMesh();

  expect(() => new MemoryCoordinator({ mesh, shards: 4 })).toThrow(ConfigError);
  expect(() => new MemoryCoordinator({ mesh, shards: 4 })).toThrow('new MemoryMesh({ shards })');
  expect(new MemoryCoordinator({ mesh: new MemoryMesh({ shards: 4 }), shards: 4 }).mesh.shards).toBe(4);
});

test('a listener that is none, or of an event that does not exist, is refused', () =>
  inMesh(async (replica) => {
    expect(() => replica.on(untyped('losst'), () => {})).toThrow(/no event 'losst'.*lost/);
    expect(() => replica.on(untyped('toString'), () => {})).toThrow(BadInputError);
    expect(() => replica.on('lost', untyped(undefined))).toThrow(BadInputError);
    expect(() => replica.onAdopted(untyped(undefined))).toThrow(BadInputError);
  }));

test('a signal that is none is refused by lead() as by acquireTurn()', () =>
  inMesh(async (replica) => {
    await expect(replica.lead('n', { signal: untyped(5) })).rejects.toBeInstanceOf(ConfigError);
    const ticket = await replica.reserve('k');
    await expect(replica.acquireTurn(ticket, { signal: untyped(5) })).rejects.toBeInstanceOf(ConfigError);
    await (await replica.lead('n', null)).resign();
  }));

test('while the backend is away, each call is refused under its own name', () =>
  inMesh(async (replica, mesh, clock) => {
    const ticket = await replica.reserve('k');
    mesh.cut(replica);
    await clock.sleep(12_000);

    const problems = await Promise.all(
      [replica.reserve('k'), replica.accept('k', { body: '' }), replica.tryLead('n'), replica.acquireTurn(ticket)].map(
        (call) => (call as Promise<unknown>).catch((error: unknown) => error),
      ),
    );

    expect(problems.every((problem) => problem instanceof CoordinationUnavailableError)).toBe(true);
    expect(problems.map((problem) => (problem as Error).message.split(':')[0])).toEqual([
      'reserve()',
      'accept()',
      'tryLead()',
      'acquireTurn()',
    ]);
    mesh.heal(replica);
  }));

test('every call to a coordinator that crashed says the same: make a new one', () =>
  inMesh(async (replica) => {
    const stray = { key: 'k', seq: 7 };
    const fresh = new MemoryCoordinator();
    replica.crash();
    fresh.crash();

    for (const dead of [replica, fresh]) {
      const calls = [dead.start(), dead.reserve('k'), dead.tryLead('n'), dead.lead('n'), dead.acquireTurn(stray)];
      for (const call of calls) {
        await expect(call).rejects.toMatchObject({
          code: 'stopped',
          message: expect.stringMatching(/crashed.*new one/),
        });
      }
    }
  }));
