// The backend itself goes away and comes back: a real server that is stopped and started, under bots of two replicas.
import { Bot, type BotOptions, signWebhook, webhook } from '@botmesh/core';
import { bear, pause, RedisServer, until } from '@botmesh/lab';
import { RedisCoordinator, RedisStateStore } from '@botmesh/redis';
import { expect, test } from 'vitest';

const LEASE_MS = 2_000;
const SECRET = 'a secret of this test';
const CHATS = ['ana', 'ben', 'cleo'];
const limit = 60_000;

interface Run {
  readonly chat: string;
  readonly id: string;
  readonly by: string;
  readonly fence: number;
  readonly isLocal: boolean;
}

/** Two replicas on a server, and a platform that delivers again until a message is taken in. */
class Scene implements AsyncDisposable {
  readonly server: RedisServer;
  readonly bots: Bot[] = [];
  readonly runs: Run[] = [];
  readonly ended: string[] = [];
  readonly replies: string[] = [];
  /** Ids that `local` told of. */
  readonly told: string[] = [];
  /** Those whose runs overlapped with another one that still was surely held. */
  readonly overlaps: string[] = [];
  readonly statuses = new Set<number>();
  readonly #holders = new Map<string, Set<AbortSignal>>();
  readonly #states: RedisStateStore[] = [];

  private constructor(server: RedisServer) {
    this.server = server;
  }

  static async open(onUnavailable: NonNullable<BotOptions['onUnavailable']>): Promise<Scene> {
    const server = await RedisServer.start({ persistence: 'aof' });
    await bear(server, 'botmesh', 0);
    const scene = new Scene(server);
    await scene.#launch('a', onUnavailable);
    await scene.#launch('b', onUnavailable);
    return scene;
  }

  async #launch(replicaId: string, onUnavailable: 'refuse' | 'local'): Promise<void> {
    const { url } = this.server;
    const state = new RedisStateStore({ url });
    const bot = new Bot({
      provider: webhook({ secret: SECRET, send: (chat, { text }) => void this.replies.push(`${chat} ${text}`) }),
      coordinator: new RedisCoordinator({ url, replicaId, leaseMs: LEASE_MS }),
      state,
      onUnavailable,
      log: () => {},
      onError: () => {},
      retryDelayMs: 5,
    });
    bot.use(async (ctx) => {
      const { chat, id = '' } = ctx.message;
      this.runs.push({ chat, id, by: replicaId, fence: ctx.turn.fence, isLocal: ctx.isLocal });
      const holders = this.#holders.get(chat) ?? new Set();
      this.#holders.set(chat, holders);
      if ([...holders].some((signal) => !signal.aborted)) this.overlaps.push(`${chat} ${id}`);
      holders.add(ctx.signal);
      await pause(ctx.message.text === 'slow' && ctx.attempt === 1 ? 4 * LEASE_MS : 10);
      holders.delete(ctx.signal);
      ctx.signal.throwIfAborted();
      const last = typeof ctx.state.last === 'string' ? ctx.state.last : 'none';
      ctx.state.last = id;
      await ctx.reply(`${id} after ${last}`);
    });
    bot.on('ended', ({ chat, id }) => this.ended.push(`${chat} ${id}`));
    bot.on('local', ({ chat, id }) => this.told.push(`${chat} ${id}`));
    await bot.start();
    this.bots.push(bot);
    this.#states.push(state);
  }

  async post(to: Bot, chat: string, id: string, text = 'x'): Promise<number> {
    const body = JSON.stringify({ chat, id, text });
    const headers = { 'x-botmesh-signature': signWebhook(SECRET, body, Date.now()) };
    const { status } = await to.webhook(new Request('http://bot/', { method: 'POST', body, headers }));
    this.statuses.add(status);
    return status;
  }

  /** As a platform does: again, elsewhere, until somebody takes it. */
  async deliver(chat: string, id: string, first: number): Promise<void> {
    const untilMs = Date.now() + limit;
    for (let at = first; (await this.post(this.bots[at % 2]!, chat, id)) !== 200; at++) {
      if (Date.now() > untilMs) throw new Error(`Nobody took ${id} of ${chat} in.`);
      await pause(50);
    }
  }

  async readiness(bot: Bot): Promise<[number, string]> {
    const answer = await bot.webhook(new Request('http://bot/readyz'));
    return [answer.status, ((await answer.json()) as { status: string }).status];
  }

  async everyoneIs(status: string): Promise<void> {
    await until(`both are ${status}`, async () => {
      const all = await Promise.all(this.bots.map((bot) => this.readiness(bot)));
      return all.every(([, found]) => found === status);
    });
  }

  /** Delivers messages `from` to `to` to each chat, side by side, to both replicas in turn. */
  async write(from: number, to: number): Promise<void> {
    const writers = CHATS.map(async (chat, n) => {
      for (let id = from; id <= to; id++) await this.deliver(chat, `${id}`, id + n);
    });
    await Promise.all(writers);
  }

  /** The ids of a chat in the order in which they were begun, each once. */
  begun(chat: string): string[] {
    return [...new Set(this.runs.filter((run) => run.chat === chat && !run.isLocal).map(({ id }) => id))];
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.bots.map((bot) => bot.stop({ drainMs: 0 })));
    await Promise.all(this.#states.map((state) => state.close?.()));
    await this.server[Symbol.asyncDispose]();
  }
}

const ids = (count: number): string[] => Array.from({ length: count }, (_, n) => `${n + 1}`);

// C-76
test('refuse: while a real server is away the platform is answered 503; back, all is handled in order, one at a time', {
  timeout: limit,
}, async () => {
  await using scene = await Scene.open('refuse');
  await scene.write(1, 5);
  await until('what came before has ended', () => scene.ended.length === 15);
  // One is in the midst of its turn, and one waits behind it.
  await scene.post(scene.bots[0]!, 'dan', '1', 'slow');
  await scene.post(scene.bots[1]!, 'dan', '2');

  await scene.server.stop();
  const writing = scene.write(6, 15);
  await scene.everyoneIs('unavailable');
  const readiness = await scene.readiness(scene.bots[0]!);
  const handledBefore = scene.ended.length;
  scene.statuses.clear();
  await pause(LEASE_MS);
  const whileAway = [...scene.statuses];
  await scene.server.start();
  await scene.everyoneIs('ready');
  await writing;
  await until('all has ended', () => new Set(scene.ended).size === 47);

  expect(readiness).toEqual([503, 'unavailable']);
  expect(whileAway).toEqual([503]);
  expect(scene.told).toEqual([]);
  expect(handledBefore).toBeLessThanOrEqual(15 + CHATS.length);
  expect(scene.overlaps).toEqual([]);
  for (const chat of CHATS) expect(scene.begun(chat), chat).toEqual(ids(15));
  expect(scene.begun('dan')).toEqual(['1', '2']);
  for (const chat of [...CHATS, 'dan']) {
    const fences = scene.runs.filter((run) => run.chat === chat).map(({ fence }) => fence);
    expect(fences, chat).toEqual([...new Set(fences)].toSorted((a, b) => a - b));
    const texts = scene.replies.filter((reply) => reply.startsWith(`${chat} `));
    const expected = ids(chat === 'dan' ? 2 : 15).map((id) => `${chat} ${id} after ${id === '1' ? 'none' : +id - 1}`);
    expect([...new Set(texts)], chat).toEqual(expected);
  }
});

// C-76
test('local: while a real server is away each process goes on alone; back, order and exclusivity are the mesh’s again', {
  timeout: limit,
}, async () => {
  await using scene = await Scene.open('local');
  await scene.write(1, 5);
  await until('what came before has ended', () => scene.ended.length === 15);

  await scene.server.stop();
  // All of one chat reach one replica, as with a sticky load balancer.
  await Promise.all(ids(5).map((n) => scene.deliver('ana', `${+n + 5}`, 0)));
  await until('five ran alone', () => scene.runs.filter(({ isLocal }) => isLocal).length === 5);
  const readiness = await scene.readiness(scene.bots[0]!);
  const last = scene.deliver('ana', '11', 0);
  await scene.server.start();
  await last;
  await scene.everyoneIs('ready');
  const atRecovery = scene.runs.length;
  await scene.write(12, 30);
  await until('all has ended', () => CHATS.every((chat) => scene.ended.includes(`${chat} 30`)));

  expect(readiness).toEqual([200, 'local']);
  const local = scene.runs.filter(({ isLocal }) => isLocal);
  expect(local.slice(0, 5).map(({ id, by }) => `${id} ${by}`)).toEqual(['6 a', '7 a', '8 a', '9 a', '10 a']);
  expect(scene.told.slice(0, 5)).toEqual(['6', '7', '8', '9', '10'].map((id) => `ana ${id}`));
  expect(scene.statuses).toEqual(new Set([200]));
  expect(scene.overlaps).toEqual([]);
  const after = scene.runs.slice(atRecovery).filter(({ isLocal }) => !isLocal);
  for (const chat of CHATS) {
    const ofChat = after.filter((run) => run.chat === chat && +run.id >= 12);
    expect([...new Set(ofChat.map(({ id }) => id))], chat).toEqual(ids(30).slice(11));
    expect(
      ofChat.every(({ fence }, at) => at === 0 || fence > ofChat[at - 1]!.fence),
      chat,
    ).toBe(true);
    // Both replicas had their part in it again.
    expect(new Set(ofChat.map(({ by }) => by)), chat).toEqual(new Set(['a', 'b']));
  }
});
