// A provider with several accounts over three processes, which are killed, frozen and replaced.
import { expect, test } from 'vitest';
import type { Backend } from '../cluster/backends.js';
import { Cluster, type Replica } from '../cluster/Cluster.js';

const ACCOUNTS = ['ana', 'ben', 'cleo', 'dora', 'emil', 'finn'];
/** Long enough that a busy machine lets no lease run out by itself. */
const LEASE_MS = 3_000;
const BALANCE_MS = 150;

/** Who has which account, by what was noted up to now. Who is frozen has none that somebody else has connected since. */
function holdersOf(cluster: Cluster): { now: Map<string, Set<string>>; conflicts: string[] } {
  const now = new Map<string, Set<string>>(ACCOUNTS.map((account) => [account, new Set()]));
  const frozen = new Set<string>();
  const conflicts: string[] = [];
  for (const { event, key = '', replicaId } of cluster.diary.read()) {
    const holders = now.get(key);
    if (event === 'frozen') frozen.add(replicaId);
    else if (event === 'thawed') frozen.delete(replicaId);
    else if (event === 'killed') for (const each of now.values()) each.delete(replicaId);
    else if (event === 'closed') holders?.delete(replicaId);
    else if (event === 'connected' && holders !== undefined) {
      const others = [...holders].filter((each) => !frozen.has(each));
      if (others.length > 0) conflicts.push(`${key}: ${replicaId} beside ${others.join()}`);
      // The connection of a process that does not run is the platform's to end.
      holders.clear();
      holders.add(replicaId);
    }
  }
  return { now, conflicts };
}

function sharesOf(cluster: Cluster, replicas: readonly Replica[]): number[] {
  const holders = [...holdersOf(cluster).now.values()];
  return replicas.map(({ id }) => holders.filter((each) => each.has(id)).length);
}

export function declareAccounts(backend: Backend): void {
  // C-42
  test(`${backend.name}: six accounts over three processes have one holder each, evenly, through a kill, a freeze and a rolling restart`, {
    timeout: 180_000,
  }, async () => {
    await using cluster = await Cluster.open(backend, { leaseMs: LEASE_MS, accounts: ACCOUNTS, balanceMs: BALANCE_MS });
    let count = 0;
    /** Each account works: a message to it is answered. */
    const writeToAll = async (): Promise<void> => {
      count += 1;
      for (const account of ACCOUNTS) await cluster.deliver({ chat: `${account}/k`, id: `${count}` });
      await cluster.until('each chat is answered', () =>
        ACCOUNTS.every((account) => cluster.texts(`${account}/k`).length === count),
      );
    };
    const areEven = (replicas: readonly Replica[], share: number) => (): boolean =>
      sharesOf(cluster, replicas).every((each) => each === share);
    const [a, b, c] = (await cluster.launchMany(3)) as [Replica, Replica, Replica];
    await cluster.until('each has two', areEven([a, b, c], 2));
    await writeToAll();

    await a.kill();
    await cluster.until('two have three each', areEven([b, c], 3));
    await writeToAll();

    const d = await cluster.launch();
    await cluster.until('the new one has two', areEven([b, c, d], 2));
    b.freeze();
    await cluster.until('the others have all', areEven([c, d], 3));
    await writeToAll();
    b.thaw();
    await cluster.until('the thawed one has two again', areEven([b, c, d], 2));

    const next: Replica[] = [];
    const codes: (number | string)[] = [];
    for (const old of [b, c, d]) {
      next.push(await cluster.launch());
      codes.push(await old.end());
    }
    await cluster.until('the new ones have two each', areEven(next, 2));
    await writeToAll();

    expect(codes).toEqual([0, 0, 0]);
    expect(holdersOf(cluster).conflicts).toEqual([]);
    for (const account of ACCOUNTS) {
      expect(cluster.texts(`${account}/k`)).toEqual(['1 after none', '2 after 1', '3 after 2', '4 after 3']);
    }
  });
}
