import { expect, test } from 'vitest';
import { MemoryMesh } from '../testing/MemoryMesh.js';
import { VirtualClock } from '../testing/VirtualClock.js';
import { MemoryCoordinator } from './MemoryCoordinator.js';
import type { Mailroom, MailTurn } from './types.js';

async function inMesh(body: (clock: VirtualClock, mesh: MemoryMesh, a: MemoryCoordinator) => Promise<void>) {
  const clock = new VirtualClock();
  const mesh = new MemoryMesh({ clock });
  const a = new MemoryCoordinator({ mesh });
  await clock.run(async () => {
    await a.start();
    await body(clock, mesh, a);
  });
  return { clock, mesh };
}

async function held(coordinator: Mailroom): Promise<MailTurn> {
  const ticket = await coordinator.accept('k', { body: '' });
  return coordinator.acquireTurn(ticket!);
}

test('a crash ends every call to a mailroom that is under way, and refuses later ones', () =>
  inMesh(async (_clock, mesh, a) => {
    const turn = await held(a);
    const calls = [
      () => a.waiting(turn),
      () => a.tell('k', ''),
      () => a.parked(),
      () => a.replay('k', 5),
      () => a.drop('k', 5),
      () => a.pace('p', { costMs: 1 }),
    ];
    mesh.cut(a);
    const ends = calls.map((call) => call().catch((error: Error) => error));

    a.crash();

    for (const end of ends) expect(await end).toMatchObject({ code: 'lease-lost', reason: 'superseded' });
    for (const call of calls) await expect(call()).rejects.toThrow(/crashed.*new one/);
  }));

test('a listener of notes that throws disturbs nobody, and one that was ended hears nothing', () =>
  inMesh(async (clock, _mesh, a) => {
    const turn = await held(a);
    const heard: string[] = [];
    const off = a.onTold(turn, (note) => heard.push(`first ${note}`));
    a.onTold(turn, () => {
      throw new Error('a listener of its own kind');
    });
    a.onTold(turn, (note) => heard.push(`last ${note}`));

    await a.tell('k', '1');
    await clock.sleep(1000);
    off();
    await a.tell('k', '2');
    await clock.sleep(1000);

    expect(heard).toEqual(['first 1', 'last 1', 'last 2']);
  }));

test('a turn that was let go is told nothing more', () =>
  inMesh(async (clock, mesh, a) => {
    const turn = await held(a);
    const heard: string[] = [];
    a.onTold(turn, (note) => heard.push(note));
    mesh.delay(a, { minMs: 50, maxMs: 50 });
    const told = a.tell('k', 'late');
    await told;
    const released = turn.release();
    await clock.sleep(5000);
    await released;

    expect(heard).toEqual([]);
  }));

test('idle paces and notes that were heard leave nothing behind', async () => {
  const { clock, mesh } = await inMesh(async (own, ownMesh, a) => {
    const turn = await held(a);
    a.onTold(turn, () => {});
    for (let n = 0; n < 1000; n++) {
      await Promise.all([a.tell('k', `${n}`), a.pace(`p${n}`, { costMs: 100 })]);
      if (n % 50 === 0) await own.sleep(100);
    }
    await turn.release();
    await own.sleep(10_000);

    expect((await ownMesh.inspect())[0]).toMatchObject({ paces: 0, queues: [] });
    await a.stop();
  });

  expect(clock.pending).toBe(0);
  expect(mesh.listeners).toBe(0);
});

test('a turn whose holder never listens keeps no more than its share of notes', () =>
  inMesh(async (clock, _mesh, a) => {
    const turn = await held(a);
    for (let n = 0; n < 300; n++) {
      await a.tell('k', `${n}`);
      if (n % 50 === 0) await clock.sleep(100);
    }
    await clock.sleep(1000);
    const heard: string[] = [];
    a.onTold(turn, (note) => heard.push(note));
    await a.tell('k', 'last');
    await clock.sleep(1000);

    expect(heard).toEqual([...Array.from({ length: 256 }, (_, n) => `${n}`), 'last']);
  }));
