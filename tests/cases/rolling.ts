// Deploys under load: three processes, each replaced in turn by a signal.
import { expect, test } from 'vitest';
import type { Backend } from '../cluster/backends.js';
import { Cluster, pause } from '../cluster/Cluster.js';

const CHATS = ['ana', 'ben', 'cleo', 'dan', 'eva', 'finn'];
const TICK_MS = 250;
/** Longer than the whole of it takes: nobody may wait for a lease to run out. */
const LEASE_MS = 60_000;
const WORK_MS = 15;

const upTo = (count: number): string[] => Array.from({ length: count }, (_, n) => `${n + 1}`);
const inOrder = (count: number): string[] => upTo(count).map((id) => `${id} after ${id === '1' ? 'none' : +id - 1}`);

/** Writes to one chat, each message when the one before it was taken in, faster than they are handled. */
async function write(cluster: Cluster, chat: string, isOver: () => boolean): Promise<number> {
  let count = 0;
  while (!isOver()) {
    count += 1;
    await cluster.deliver({ chat, id: `${count}`, raw: { ms: WORK_MS } }, cluster.connected[0]);
    await pause(WORK_MS / 2);
  }
  return count;
}

export function declareRolling(backend: Backend): void {
  test.each([
    { provider: 'a provider that all have', isExclusive: false },
    { provider: 'an exclusive provider', isExclusive: true },
  ])(
    // C-42, C-63, C-71
    `${backend.name}: a rolling restart of three processes with $provider and a schedule loses, doubles and reorders nothing`,
    { timeout: 180_000 },
    async ({ isExclusive }) => {
      await using cluster = await Cluster.open(backend, { leaseMs: LEASE_MS, isExclusive, tickMs: TICK_MS });
      const old = await cluster.launchMany(3);
      await cluster.until('somebody is connected', () => cluster.connected.length > 0);
      let isOver = false;
      const writing = Promise.all(CHATS.map((chat) => write(cluster, chat, () => isOver)));
      await cluster.until('the schedule runs', () => cluster.noted('ran').length > 1);

      const codes: (number | string)[] = [];
      for (const each of old) {
        await cluster.launch();
        codes.push(await each.end());
      }
      const ranByThen = cluster.noted('ran').length;
      await cluster.until('the schedule goes on', () => cluster.noted('ran').length > ranByThen + 1);
      isOver = true;
      const counts = await writing;
      const isHandled = (chat: string, n: number): boolean => cluster.noted('ended', { chat }).length >= counts[n]!;
      await cluster.until('each message has ended', () => CHATS.every(isHandled));

      expect(codes).toEqual([0, 0, 0]);
      for (const [n, chat] of CHATS.entries()) {
        expect(cluster.texts(chat), chat).toEqual(inOrder(counts[n]!));
        expect(cluster.ids('begun', chat), chat).toEqual(upTo(counts[n]!));
      }
      expect(cluster.noted('ended', { chat: 'ana' }).every(({ how }) => how === 'handled')).toBe(true);
      // Each due time from the first on, once, in order, and so in the chat of the schedule.
      const due = cluster.noted('due').map(({ seq }) => seq!);
      expect(due).toEqual(due.map((_, n) => due[0]! + n * TICK_MS));
      expect(cluster.noted('due').every(({ attempt }) => attempt === 1)).toBe(true);
      const ticked = cluster.noted('ticked').map(({ seq }) => seq!);
      expect(ticked).toEqual(due.slice(0, ticked.length));
      expect(ticked.length).toBeGreaterThanOrEqual(ranByThen);
      expect(cluster.noted('aborted')).toEqual([]);
      expect(counts.every((count) => count > 20)).toBe(true);
      if (isExclusive) expect(mostConnected(cluster)).toBe(1);
    },
  );
}

function mostConnected(cluster: Cluster): number {
  const open = new Set<string>();
  let most = 0;
  for (const { event, replicaId } of cluster.diary.read()) {
    if (event === 'connected') open.add(replicaId);
    else if (event === 'closed') open.delete(replicaId);
    most = Math.max(most, open.size);
  }
  return most;
}
