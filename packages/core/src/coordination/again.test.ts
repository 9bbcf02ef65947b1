import { expect, test } from 'vitest';
import { MemoryMesh } from '../testing/MemoryMesh.js';
import { VirtualClock } from '../testing/VirtualClock.js';
import { MemoryCoordinator } from './MemoryCoordinator.js';
import type { Ticket } from './types.js';

/** An acceptance is refused in an outage, and made again as soon as the backend is back. How often the message is handled. */
async function acceptAgain(healsAfterMs: number, seed: number): Promise<number> {
  const clock = new VirtualClock({ seed });
  const mesh = new MemoryMesh({ clock });
  const replica = new MemoryCoordinator({ mesh, replicaId: 'a' });
  const message = { id: '1', body: 'x' };
  let handled = 0;
  const handle = async (ticket: Ticket | null): Promise<void> => {
    if (ticket === null) return;
    const turn = await replica.acquireTurn(ticket);
    handled += 1;
    await turn.release();
  };
  replica.onAdopted(({ ticket }) => void handle(ticket));
  await clock.run(async () => {
    await replica.start();
    mesh.delay(replica, { minMs: 1, maxMs: 40 });
    mesh.cut(replica);
    await expect(replica.accept('k', message)).rejects.toMatchObject({ code: 'unavailable' });
    const again = new Promise<Ticket | null>((resolve) => {
      replica.on('available', () => resolve(replica.accept('k', message)));
    });
    await clock.sleep(healsAfterMs);
    mesh.heal(replica);
    await handle(await again);
    await clock.sleep(5_000);
    await replica.stop();
  });
  return handled;
}

test('a message that was refused in an outage and comes again right after it is handled once', async () => {
  for (let seed = 1; seed <= 300; seed++) {
    const healsAfterMs = (seed * 37) % 3_000;
    expect(await acceptAgain(healsAfterMs, seed), `seed ${seed}, healed after ${healsAfterMs} ms`).toBe(1);
  }
});
