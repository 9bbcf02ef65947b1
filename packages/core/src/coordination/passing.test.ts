import { expect, test } from 'vitest';
import { MemoryMesh } from '../testing/MemoryMesh.js';
import { VirtualClock } from '../testing/VirtualClock.js';
import { MemoryCoordinator } from './MemoryCoordinator.js';

const SEEDS = 60;

test(`in ${SEEDS} orders of arrival, what a replica passes on does not come back to it once nobody listens there`, async () => {
  for (let seed = 1; seed <= SEEDS; seed++) {
    const clock = new VirtualClock({ seed });
    const mesh = new MemoryMesh({ clock, seed });
    const heard: string[] = [];
    await clock.run(async () => {
      const [a, b] = [new MemoryCoordinator({ mesh }), new MemoryCoordinator({ mesh })];
      const off = a.onAdopted(({ id }) => heard.push(`a ${id}`));
      b.onAdopted(({ ticket, id }) => {
        heard.push(`b ${id}`);
        void b.acquireTurn(ticket).then((turn) => turn.release());
      });
      await Promise.all([a.start(), b.start()]);
      const turn = await a.acquireTurn((await a.accept('k', { id: '1', body: 'x' }))!);
      await a.accept('k', { id: '2', body: 'x' });
      mesh.delay(a, { minMs: 0, maxMs: 200 });

      off();
      a.passWaiting();
      void turn.release();
      await clock.sleep(1_500);
      await Promise.all([a.stop(), b.stop()]);
    });
    expect({ seed, heard }).toEqual({ seed, heard: ['b 2'] });
  }
});
