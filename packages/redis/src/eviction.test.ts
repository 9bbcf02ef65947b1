import { expect, test } from 'vitest';
import { TestServer, until } from '../testing/lab.js';
import { bear } from '../testing/stores.js';
import { RedisCoordinator } from './index.js';
import { tagOf } from './namespace.js';
import { keysOf } from './script/scripts.js';

const LEASE_MS = 2_000;
const names = keysOf(tagOf('botmesh', 0));

interface Outcome {
  /** Whether another replica was granted the key while its holder still believed in it. */
  readonly wasHeldTwice: boolean;
  /** Of the grants, in order. */
  readonly fences: readonly number[];
}

/** One replica holds a key and another one waits for it, when the server drops `name`. */
async function dropped(name: string): Promise<Outcome> {
  await using server = await TestServer.start({ persistence: 'aof' });
  await bear(server, 'botmesh', 0);
  const open = () => new RedisCoordinator({ url: server.url, leaseMs: LEASE_MS });
  const [a, b] = [open(), open()];
  await Promise.all([a.start(), b.start()]);
  const held = await a.acquireTurn(await a.reserve('chat'));
  let isLetGo = false;
  let wasHeldTwice = false;
  const fences = [held.fence];
  const take = async (who: RedisCoordinator): Promise<true> => {
    const turn = await who.acquireTurn(await who.reserve('chat'), { timeoutMs: LEASE_MS });
    wasHeldTwice ||= !isLetGo && believes(held);
    fences.push(turn.fence);
    await turn.release();
    return true;
  };
  const waiting = take(b).catch(() => {});

  await server.ask('DEL', name);
  // It goes on for as long as it may, or for longer than a lease.
  await until('the holder has lost it', () => !believes(held), 1.5 * LEASE_MS).catch(() => {});
  isLetGo = true;
  await held.release();
  await waiting;
  await until('both take turns again', () => take(a).then(() => take(b)), 30_000);
  await Promise.all([a.stop(), b.stop()]);
  return { wasHeldTwice, fences };
}

function believes(turn: { assertHeld(): void }): boolean {
  try {
    turn.assertHeld();
    return true;
  } catch {
    return false;
  }
}

const isRising = (fences: readonly number[]): boolean => fences.every((fence, at) => fence > (fences[at - 1] ?? 0));

// C-73
test.concurrent.each(names.filter((name) => !name.endsWith(':heads')))(
  'a server that drops a key of the mesh makes no two holders, and no fence falls: %s',
  async (name) => {
    const { wasHeldTwice, fences } = await dropped(name);

    expect(wasHeldTwice).toBe(false);
    expect(isRising(fences)).toBe(true);
  },
  90_000,
);

// C-73: the one loss that no step notices. Two may hold a key then, and only the fence tells them apart.
test.concurrent('a server that drops the heads of all queues still gives each grant a greater fence', async () => {
  const { fences } = await dropped(names.find((name) => name.endsWith(':heads'))!);

  expect(isRising(fences)).toBe(true);
}, 90_000);
