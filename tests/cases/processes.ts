// Cases whose replicas are processes: killed, frozen, stopped and restarted for real. docs/cases.md lists all cases.
import { expect, test } from 'vitest';
import type { Backend } from '../cluster/backends.js';
import { Cluster, type ClusterOptions, type Delivery, pause, type Replica } from '../cluster/Cluster.js';
import type { Noted } from '../cluster/Diary.js';

/** Long enough that a busy machine lets no lease run out by itself. */
const LEASE_MS = 3_000;
const CHAT = 'k';
const limit = 180_000;

type Body = (cluster: Cluster) => Promise<void>;

const upTo = (count: number): string[] => Array.from({ length: count }, (_, n) => `${n + 1}`);
const to = (id: string, raw: Delivery['raw'] = {}): Delivery => ({ chat: CHAT, id, raw });
/** What a chat is told when each message was counted once, after the one before it. */
const inOrder = (count: number): string[] => upTo(count).map((id) => `${id} after ${id === '1' ? 'none' : +id - 1}`);

/** Each message of the chat has ended. */
async function allEnded(cluster: Cluster, count: number): Promise<void> {
  await cluster.until('each message has ended', () => new Set(cluster.ids('ended', CHAT)).size === count);
}

function maxAtOnce(lines: readonly Noted[], begin: string, end: readonly string[]): number {
  const open = new Set<string>();
  let most = 0;
  for (const { event, replicaId } of lines) {
    if (event === begin) open.add(replicaId);
    else if (end.includes(event)) open.delete(replicaId);
    most = Math.max(most, open.size);
  }
  return most;
}

/** The facts, each on a backend that is opened for it alone. */
export function declareCases(backend: Backend): void {
  function fact(title: string, body: Body, options: Partial<ClusterOptions> = {}): void {
    test(`${backend.name}: ${title}`, { timeout: limit }, async () => {
      await using cluster = await Cluster.open(backend, { leaseMs: LEASE_MS, ...options });
      await body(cluster);
    });
  }

  // C-08
  fact('twenty messages of one chat over four processes are handled once each, in order', async (cluster) => {
    const replicas = await cluster.launchMany(4);

    for (const [n, id] of upTo(20).entries()) await cluster.deliver(to(id, { ms: 5 }), replicas[n % 4]);
    await allEnded(cluster, 20);

    expect(cluster.ids('begun', CHAT)).toEqual(upTo(20));
    expect(cluster.texts(CHAT)).toEqual(inOrder(20));
  });

  // C-06
  fact(
    'of two processes that reserve one key a thousand times each, never two hold it, and turns come in the order of the places',
    async (cluster) => {
      const replicas = await cluster.launchMany(2);

      await Promise.all(replicas.map((replica) => replica.call('rounds', { key: CHAT, count: 1_000 })));

      expect(cluster.noted('rounds over')).toHaveLength(2);
      const turns = cluster.noted('held');
      const seqs = turns.map(({ seq }) => seq!);
      expect(new Set(seqs).size).toBe(2_000);
      expect(seqs).toEqual(seqs.toSorted((a, b) => a - b));
      expect(turns.every(({ fence }, n) => n === 0 || fence! > turns[n - 1]!.fence!)).toBe(true);
      expect(maxAtOnce(cluster.diary.read(), 'held', ['let go'])).toBe(1);
    },
    { hasRounds: true },
  );

  // C-17, C-03
  fact('a process killed while its reply is on its way keeps no chat: what comes next is handled', async (cluster) => {
    const [a, b] = (await cluster.launchMany(2)) as [Replica, Replica];
    await cluster.deliver(to('1', { holdMs: 30_000 }), a);
    await cluster.until('the reply is on its way', () => cluster.noted('sending').length === 1);

    await a.kill();
    await cluster.deliver(to('2'), b);
    await allEnded(cluster, 2);

    expect(cluster.noted('begun').map(({ id, attempt }) => [id, attempt])).toEqual([
      ['1', 1],
      ['1', 2],
      ['2', 1],
    ]);
    expect(cluster.texts(CHAT)).toEqual(inOrder(2));
  });

  // C-57
  fact(
    'what a killed process had not answered is delivered again elsewhere, and handled to its end',
    async (cluster) => {
      const [a, b] = (await cluster.launchMany(2)) as [Replica, Replica];
      const answers = upTo(10).map((id) => a.deliver({ chat: `chat ${id}`, id, raw: { ms: 2_000 } }));
      void a.kill();
      await Promise.all(answers);

      for (const id of upTo(10)) await cluster.deliver({ chat: `chat ${id}`, id }, b);
      await cluster.until('each message has ended', () => cluster.noted('ended').length === 10);

      for (const id of upTo(10)) expect(cluster.texts(`chat ${id}`)).toEqual([`${id} after none`]);
      expect(cluster.noted('ended').every(({ how }) => how === 'handled')).toBe(true);
    },
  );

  // C-30, C-62
  fact(
    'a signal in mid-turn, and a new process meanwhile: the five messages that come then are handled',
    async (cluster) => {
      const a = await cluster.launch();
      await cluster.deliver(to('1', { ms: 1_500 }), a);
      await cluster.until('the first has begun', () => cluster.noted('begun').length === 1);

      const ended = a.end('SIGINT');
      const next = cluster.launch();
      for (const id of ['2', '3', '4', '5', '6']) await cluster.deliver(to(id));
      const [code] = await Promise.all([ended, next]);
      await allEnded(cluster, 6);

      expect(code).toBe(0);
      expect(cluster.ids('begun', CHAT)).toEqual(upTo(6));
      expect(cluster.texts(CHAT)).toEqual(inOrder(6));
    },
  );

  // C-62
  fact(
    'a turn that outlasts the drain is handled once more, from its beginning, and told of once',
    async (cluster) => {
      const a = await cluster.launch();
      await cluster.deliver(to('1', { ms: 2_500 }), a);
      await cluster.until('it has begun', () => cluster.noted('begun').length === 1);

      await cluster.launch();
      await a.end();
      await allEnded(cluster, 1);

      expect(cluster.noted('aborted').map(({ reason }) => reason)).toEqual(['stopped']);
      expect(cluster.noted('begun')).toHaveLength(2);
      expect(cluster.texts(CHAT)).toEqual(inOrder(1));
    },
    { drainMs: 200 },
  );

  // C-63
  fact(
    'of thirty messages in ten chats the running ones end where they are, the waiting ones elsewhere at once',
    async (cluster) => {
      const [a, b] = (await cluster.launchMany(2)) as [Replica, Replica];
      const chats = upTo(10).map((n) => `chat ${n}`);
      for (const chat of chats) await cluster.deliver({ chat, id: '1', raw: { ms: 2_500 } }, a);
      await cluster.until('ten turns run', () => cluster.noted('begun').length === 10);
      for (const id of ['2', '3']) for (const chat of chats) await cluster.deliver({ chat, id }, a);

      const ended = a.end();
      let late = 'accepted';
      // What reaches it before the signal does is taken in.
      for (let n = 1; late === 'accepted'; n++) late = await a.deliver({ chat: `late ${n}`, id: '1' });
      const code = await ended;
      const endedMs = Date.now();
      const isOver = (): boolean => chats.every((chat) => cluster.noted('ended', { chat }).length === 3);
      await cluster.until('each message has ended', isOver);

      expect(code).toBe(0);
      expect(['stopped', 'not-started', 'gone']).toContain(late);
      expect(
        cluster
          .noted('begun')
          .slice(0, 10)
          .every(({ replicaId }) => replicaId === a.id),
      ).toBe(true);
      const waiting = cluster.noted('begun').filter(({ id }) => id !== '1');
      expect(waiting.every(({ replicaId, attempt }) => replicaId === b.id && attempt === 1)).toBe(true);
      for (const chat of chats) expect(cluster.texts(chat)).toEqual(inOrder(3));
      // Nobody waited until the one that stopped counted as dead.
      expect(Date.now() - endedMs).toBeLessThan(cluster.leaseMs);
    },
    { leaseMs: 12_000, drainMs: 10_000 },
  );

  // C-31, C-38
  fact(
    'a process that was frozen in its turn is passed over, and on waking neither replies nor saves',
    async (cluster) => {
      const [a, b] = (await cluster.launchMany(2)) as [Replica, Replica];
      await cluster.deliver(to('1', { ms: 500 }), a);
      await cluster.until('it has begun', () => cluster.noted('begun').length === 1);

      a.freeze();
      await cluster.deliver(to('2'), b);
      await allEnded(cluster, 2);
      a.thaw();
      await cluster.until('the sleeper knows it', () => cluster.noted('failed', { replicaId: a.id }).length === 1);
      await cluster.deliver(to('3'), b);
      await allEnded(cluster, 3);

      expect(cluster.noted('failed').map(({ code }) => code)).toEqual(['lease-lost']);
      expect(cluster.noted('sent').every(({ replicaId }) => replicaId === b.id)).toBe(true);
      expect(cluster.texts(CHAT)).toEqual(inOrder(3));
    },
  );

  // C-33
  fact('a process whose event loop was blocked past its lease knows it before it acts on', async (cluster) => {
    const [a, b] = (await cluster.launchMany(2)) as [Replica, Replica];
    await cluster.deliver(to('1', { blockMs: 3 * LEASE_MS }), a);
    await cluster.until('it has begun', () => cluster.noted('begun').length === 1);

    await cluster.deliver(to('2'), b);
    await allEnded(cluster, 2);
    await cluster.until('the blocked one goes on', () => cluster.noted('superseded', { replicaId: a.id }).length === 1);

    const ofA = cluster.noted('failed', { replicaId: a.id });
    expect(ofA.map(({ code }) => code)).toEqual(['lease-lost']);
    expect(cluster.noted('sent').every(({ replicaId }) => replicaId === b.id)).toBe(true);
    expect(cluster.texts(CHAT)).toEqual(inOrder(2));
  });

  // C-70
  fact(
    'a steer and a cancel at one process reach the turn that runs in another within a second',
    async (cluster) => {
      const [a, b] = (await cluster.launchMany(2)) as [Replica, Replica];
      const chats = upTo(5).map((n) => `chat ${n}`);
      for (const chat of chats) await cluster.deliver({ chat, id: '1', raw: { ms: 4_000 } }, a);
      await cluster.until('all have begun', () => cluster.noted('begun').length === chats.length);
      const reachMs = async (call: 'steer' | 'cancel', event: string, chat: string): Promise<number> => {
        const { value } = await b.call(call, { chat, payload: 'left', reason: 'enough' });
        const { reached, atMs } = value as { reached: boolean; atMs: number };
        expect(reached).toBe(true);
        await cluster.until(`${chat} was told`, () => cluster.noted(event, { chat }).length === 1);
        return cluster.noted(event, { chat })[0]!.atMs! - atMs;
      };

      const tookMs: number[] = [];
      for (const chat of chats) tookMs.push(await reachMs('steer', 'steered', chat));
      for (const chat of chats) tookMs.push(await reachMs('cancel', 'aborted', chat));
      await cluster.until('all have ended', () => cluster.noted('ended').length === chats.length);

      expect(Math.max(...tookMs)).toBeLessThan(1_000);
      const told = [...cluster.noted('steered'), ...cluster.noted('aborted')];
      expect(told.every(({ replicaId }) => replicaId === a.id)).toBe(true);
      expect(cluster.noted('steered').every(({ text }) => text === 'left')).toBe(true);
      expect(cluster.noted('aborted')[0]).toMatchObject({ code: 'cancelled', reason: 'enough' });
      expect(cluster.noted('ended').every(({ how }) => how === 'cancelled')).toBe(true);
      expect(cluster.noted('sent')).toEqual([]);
      expect((await b.call('cancel', { chat: 'idle', reason: 'x' })).value).toMatchObject({ reached: false });
    },
    // Longer than the test: no heartbeat would bring it within the second.
    { leaseMs: 60_000 },
  );

  // C-40, C-42, C-47, C-52
  fact(
    'one process at a time is connected, through a kill, a deploy and five quick restarts, and no message is lost or doubled',
    async (cluster) => {
      const isOneConnected = (): boolean => cluster.connected.length === 1;
      await cluster.launchMany(3);
      let isOver = false;
      const writing = (async () => {
        let count = 0;
        for (; !isOver; count++) {
          await cluster.deliver(to(`${count + 1}`), cluster.connected[0]);
          await pause(15);
        }
        return count;
      })();
      await cluster.until('a leader is connected', isOneConnected);

      await cluster.until('it has handled some', () => cluster.noted('ended').length > 5);
      await cluster.connected[0]!.kill();
      await cluster.until('the next one is connected', isOneConnected);
      for (let restart = 0; restart < 6; restart++) {
        const leader = cluster.connected[0]!;
        await cluster.launch();
        expect(await leader.end()).toBe(0);
        await cluster.until('the next one is connected', isOneConnected);
      }
      isOver = true;
      const total = await writing;
      await allEnded(cluster, total);

      expect(maxAtOnce(cluster.diary.read(), 'connected', ['closed', 'killed'])).toBe(1);
      expect([...new Set(cluster.texts(CHAT))]).toEqual(inOrder(total));
      const killed = cluster.noted('killed')[0]!.replicaId;
      const cutOff = new Set(cluster.noted('begun', { replicaId: killed }).map(({ id }) => id));
      for (const { id } of cluster.noted('ended', { replicaId: killed })) cutOff.delete(id);
      const ids = cluster.ids('begun', CHAT);
      expect(ids.filter((id, at) => ids.indexOf(id) !== at && !cutOff.has(id))).toEqual([]);
    },
    { isExclusive: true },
  );
}
