import { expect, test } from 'vitest';
import { MemoryCoordinator } from '../coordination/MemoryCoordinator.js';
import { checkHistory, type HistoryEvent } from './history.js';
import { MemoryMesh } from './MemoryMesh.js';
import { Recorder } from './Recorder.js';
import { VirtualClock } from './VirtualClock.js';

function recorded() {
  const clock = new VirtualClock();
  const mesh = new MemoryMesh({ clock });
  const events: HistoryEvent[] = [];
  const replica = (replicaId: string): Recorder =>
    new Recorder(new MemoryCoordinator({ mesh, replicaId }), {
      nowMs: () => clock.monotonicMs(),
      record: (event) => events.push(event),
    });
  return { clock, mesh, events, replica };
}

test('what replicas do is recorded in full, and breaks nothing', async () => {
  const { clock, events, replica } = recorded();
  const [a, b] = [replica('a'), replica('b')];
  const adopted: Promise<void>[] = [];
  b.onAdopted(({ ticket }) => {
    adopted.push(b.acquireTurn(ticket).then((turn) => turn.release()));
  });

  await clock.run(async () => {
    await Promise.all([a.start(), b.start()]);
    const turn = await a.acquireTurn(await a.reserve('k'));
    turn.assertHeld();
    const waiting = b.acquireTurn(await b.reserve('k'));
    const impatient = a.acquireTurn(await a.reserve('k'), { timeoutMs: 5 });
    await expect(impatient).rejects.toMatchObject({ code: 'timeout' });
    await turn.release();
    await turn.release();
    await (await waiting).release();
    const leadership = await a.lead('poller');
    leadership.assertHeld();
    await leadership.resign();
    const message = await a.accept('m', { id: '1', body: 'hello' });
    if (message === null) throw new Error('A duplicate.');
    await (await a.acquireTurn(message)).release({ retry: true });
    await clock.sleep(3000);
    await Promise.all(adopted);
    await Promise.all([a.stop(), b.stop()]);
  });

  const kinds = events.map((event) => event.kind);
  for (const kind of ['reserved', 'granted', 'held', 'ended', 'withdrawn', 'accepted', 'handled'] as const) {
    expect(kinds).toContain(kind);
  }
  expect(kinds.filter((kind) => kind === 'granted')).toHaveLength(5);
  expect(kinds.filter((kind) => kind === 'handled')).toHaveLength(1);
  expect(checkHistory(events, { finished: true })).toEqual([]);
});

test('two who believe in one key at once are found out', async () => {
  const clock = new VirtualClock();
  const meshes = [new MemoryMesh({ clock }), new MemoryMesh({ clock })];
  const events: HistoryEvent[] = [];
  const [a, b] = meshes.map(
    (mesh, n) =>
      new Recorder(new MemoryCoordinator({ mesh, replicaId: 'same' }), {
        nowMs: () => clock.monotonicMs(),
        record: (event) => events.push(event),
        name: `start ${n}`,
      }),
  );
  if (a === undefined || b === undefined) throw new Error('No replicas.');

  await clock.run(async () => {
    await Promise.all([a.start(), b.start()]);
    const first = await a.acquireTurn(await a.reserve('k'));
    await clock.sleep(10);
    const second = await b.acquireTurn(await b.reserve('k'));
    await clock.sleep(10);
    first.assertHeld();
    second.assertHeld();
    await Promise.all([a.stop(), b.stop()]);
  });

  expect(checkHistory(events).map((violation) => violation.rule)).toContain('exclusion');
});

test('turns of two shards that have one fence both end, and their messages are handled', async () => {
  const clock = new VirtualClock();
  const mesh = new MemoryMesh({ clock, shards: 2 });
  const events: HistoryEvent[] = [];
  const recorder = new Recorder(new MemoryCoordinator({ mesh, replicaId: 'a' }), {
    nowMs: () => clock.monotonicMs(),
    record: (event) => events.push(event),
  });
  const keys = ['a', 'b', 'c', 'd'];

  await clock.run(async () => {
    await recorder.start();
    const taken = await Promise.all(keys.map((key) => recorder.accept(key, { id: key, body: 'text' })));
    const turns = await Promise.all(taken.map((ticket) => recorder.acquireTurn(ticket!)));
    await Promise.all(turns.map((turn) => turn.release()));
    await recorder.stop();
  });

  const fences = events.flatMap((event) => (event.kind === 'granted' ? [event.fence] : []));
  expect(new Set(fences).size).toBeLessThan(keys.length);
  expect(events.filter(({ kind }) => kind === 'ended')).toHaveLength(keys.length);
  expect(events.filter(({ kind }) => kind === 'handled')).toHaveLength(keys.length);
});
