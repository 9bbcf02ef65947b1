import { expect, test } from 'vitest';
import { whyNoNats } from '../backends/nats.js';
import { NatsServer } from '../nats/NatsServer.js';
import { pause, until } from '../until.js';
import { Fleet } from './Fleet.js';

const LEASE_MS = 2000;

test.skipIf(whyNoNats() !== undefined)(
  'what a dead replica left is late, not lost, while nobody was awake for long enough to declare the death',
  { timeout: 200_000 },
  async () => {
    await using server = await NatsServer.start();
    // So many keys that the living hardly ever wait behind the dead: they would not be idle.
    await using fleet = new Fleet({ backend: 'nats', seed: 1, leaseMs: LEASE_MS, keys: 1000 });
    const connect = { urls: [server.url] };
    const survivor = await fleet.start(connect);
    await fleet.isAlive(60_000);
    for (let hasLeft = false; !hasLeft; ) {
      const victim = await fleet.start(connect);
      const isAtWork = () => hasOpen(fleet, victim.name);
      await until('it has a message in hand', isAtWork, 60_000);
      await fleet.kill(victim);
      hasLeft = isAtWork();
    }

    const judged = fleet.finish(60_000);
    for (let n = 0; n < 3; n++) {
      await fleet.freezeFor(survivor, LEASE_MS);
      await pause(LEASE_MS / 4);
    }

    expect((await judged).violations).toEqual([]);
  },
);

/** Whether a message that it took in was not handled yet. */
function hasOpen(fleet: Fleet, name: string): boolean {
  const events = fleet.events();
  const handled = new Set(events.flatMap((event) => (event.kind === 'handled' ? [event.seq] : [])));
  return events.some((event) => event.kind === 'accepted' && event.replica === name && !handled.has(event.seq));
}
