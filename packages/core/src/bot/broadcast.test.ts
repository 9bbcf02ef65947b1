import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { MemoryCoordinator } from '../coordination/MemoryCoordinator.js';
import { MemoryStateStore } from '../state/MemoryStateStore.js';
import { FakeProvider, type SentReply } from '../testing/FakeProvider.js';
import { MemoryMesh } from '../testing/MemoryMesh.js';
import { VirtualClock } from '../testing/VirtualClock.js';
import { Bot } from './Bot.js';
import type { BroadcastProgress } from './broadcast.js';

const unhandled = vi.fn();
beforeEach(() => process.on('unhandledRejection', unhandled));
afterEach(() => {
  process.off('unhandledRejection', unhandled);
  expect(unhandled).not.toHaveBeenCalled();
});

class Lab {
  readonly clock = new VirtualClock();
  readonly mesh = new MemoryMesh({ clock: this.clock });
  readonly store = new MemoryStateStore();
  readonly sent: SentReply[] = [];
  readonly #bots: Bot[] = [];

  async replica(set: (bot: Bot) => unknown = () => {}, isExclusive = false) {
    const coordinator = new MemoryCoordinator({ mesh: this.mesh, maxAttempts: 3 });
    const provider = new FakeProvider({ sent: this.sent, exclusive: isExclusive });
    const { clock, store: state } = this;
    const bot = new Bot({ provider, coordinator, clock, state, retryDelayMs: 0, log: () => {}, onError: () => {} });
    set(bot);
    this.#bots.push(bot);
    await bot.start();
    return { bot, provider, coordinator };
  }

  run(body: () => Promise<void>): Promise<void> {
    return this.clock.run(async () => {
      await body();
      await Promise.all(this.#bots.map((bot) => bot.stop({ drainMs: 0 })));
    });
  }

  get chats(): string[] {
    return this.sent.map(({ chat }) => chat);
  }
}

const upTo = (count: number): string[] => Array.from({ length: count }, (_, n) => `chat ${n}`);

describe('bot.broadcast', () => {
  test('reaches every chat once, in the order of the list, and tells how far it is', async () => {
    const lab = new Lab();
    const progress: BroadcastProgress[] = [];
    await lab.run(async () => {
      const { bot } = await lab.replica();

      const result = await bot.broadcast(upTo(250), 'news', { id: 'n1', onProgress: (each) => progress.push(each) });

      expect(result).toEqual({ done: 250, failed: 0 });
    });

    expect(lab.chats).toEqual(upTo(250));
    expect(progress.map(({ done }) => done)).toEqual([100, 200, 250]);
  });

  test('that is over is not sent again, and one of another id is', async () => {
    const lab = new Lab();
    await lab.run(async () => {
      const [a, b] = [await lab.replica(), await lab.replica()];
      await a.bot.broadcast(upTo(3), 'news', { id: 'n1' });

      expect(await b.bot.broadcast(upTo(3), 'news', { id: 'n1' })).toEqual({ done: 3, failed: 0 });
      await b.bot.broadcast(upTo(1), 'more news', { id: 'n2' });
    });

    expect(lab.sent.map(({ text }) => text)).toEqual(['news', 'news', 'news', 'more news']);
  });

  test('called on several replicas at once runs on one of them', async () => {
    const lab = new Lab();
    await lab.run(async () => {
      const replicas = [await lab.replica(), await lab.replica(), await lab.replica()];
      const results = await Promise.all(replicas.map(({ bot }) => bot.broadcast(upTo(40), 'news', { id: 'n1' })));

      expect(results.map(({ done }) => done)).toEqual([40, 40, 40]);
    });

    expect(lab.chats).toEqual(upTo(40));
  });

  test('whose replica died goes on elsewhere, and each chat takes it in once', async () => {
    const lab = new Lab();
    await lab.run(async () => {
      const [a, b] = [await lab.replica(), await lab.replica()];
      const pace = async (chat: string): Promise<void> => {
        if (chat === 'chat 150') a.coordinator.crash();
        await lab.clock.sleep(1);
      };
      void a.bot.broadcast(upTo(200), 'news', { id: 'n1', pace }).catch(() => {});
      await lab.clock.sleep(1_000);
      const result = await b.bot.broadcast(upTo(200), 'news', { id: 'n1' });
      await lab.clock.sleep(20_000);

      expect(result.done).toBe(200);
    });

    expect(new Set(lab.chats)).toEqual(new Set(upTo(200)));
    expect(new Set(lab.sent.map(({ key }) => key)).size).toBe(200);
    // Sent, and not marked as handled when its replica died.
    expect(lab.chats.length).toBeLessThanOrEqual(201);
  });

  test('is kept at its place when its signal aborts, and goes on from there', async () => {
    const lab = new Lab();
    const asked: string[] = [];
    await lab.run(async () => {
      const { bot } = await lab.replica();
      const abort = new AbortController();
      const pace = (chat: string): void => {
        if (chat === 'chat 30') abort.abort(new Error('enough'));
      };
      const options = { id: 'n1', pace, signal: abort.signal };
      await expect(bot.broadcast(upTo(60), 'news', options)).rejects.toThrow('enough');
      const message = (chat: string): string => {
        asked.push(chat);
        return 'news';
      };

      expect(await bot.broadcast(upTo(60), message, { id: 'n1' })).toEqual({ done: 60, failed: 0 });
    });

    expect(asked[0]).toBe('chat 30');
    expect(lab.chats).toEqual(upTo(60));
  });

  test('rejects when its bot stops, and its place is kept', async () => {
    const lab = new Lab();
    await lab.run(async () => {
      const [a, b] = [await lab.replica(), await lab.replica()];
      const pace = (): Promise<void> => lab.clock.sleep(10);
      const first = a.bot.broadcast(upTo(100), 'news', { id: 'n1', pace });
      first.catch(() => {});
      await lab.clock.sleep(500);
      await a.bot.stop();

      await expect(first).rejects.toMatchObject({ code: 'stopped' });
      expect((await lab.store.load('botmesh:broadcast:n1'))?.value).toMatchObject({ done: expect.any(Number) });
      await b.bot.broadcast(upTo(100), 'news', { id: 'n1', pace });
    });

    expect(lab.chats).toEqual(upTo(100));
  });

  test('waits out an outage, and goes on where it was', async () => {
    const lab = new Lab();
    await lab.run(async () => {
      const { bot, coordinator } = await lab.replica();
      const pace = (): Promise<void> => lab.clock.sleep(100);
      const sending = bot.broadcast(upTo(100), 'news', { id: 'n1', pace });
      await lab.clock.sleep(2_000);
      lab.mesh.cut(coordinator);
      await lab.clock.sleep(60_000);
      lab.mesh.heal(coordinator);

      expect((await sending).done).toBe(100);
      await lab.clock.sleep(20_000);
    });

    expect(new Set(lab.chats)).toEqual(new Set(upTo(100)));
  });

  test('comes behind what a chat is doing, and keeps no other chat waiting', async () => {
    const lab = new Lab();
    await lab.run(async () => {
      const { bot, provider } = await lab.replica((each) =>
        each.use(async (ctx) => {
          await lab.clock.sleep(5_000);
          await ctx.reply('slow');
        }),
      );
      await provider.receive({ chat: 'chat 1', text: 'x' });
      await bot.broadcast(upTo(3), 'news', { id: 'n1' });
    });

    expect(lab.sent.map(({ chat, text }) => `${chat} ${text}`)).toEqual([
      'chat 0 news',
      'chat 2 news',
      'chat 1 slow',
      'chat 1 news',
    ]);
  });

  test('counts what could not be sent at first, and the mesh tries it again', async () => {
    const lab = new Lab();
    await lab.run(async () => {
      const { bot, provider } = await lab.replica();
      let failures = 1;
      provider.onSend = (chat) => {
        if (chat === 'chat 1' && failures-- > 0) throw new Error('blocked');
      };

      expect(await bot.broadcast(upTo(3), 'news', { id: 'n1' })).toEqual({ done: 3, failed: 1 });
      await lab.clock.sleep(5_000);
    });

    expect(lab.chats.toSorted()).toEqual(upTo(3));
  });

  test('makes each chat its own message, and leaves out those that get none', async () => {
    const lab = new Lab();
    await lab.run(async () => {
      const { bot } = await lab.replica();
      const message = async (chat: string) => (chat === 'chat 1' ? undefined : { text: `to ${chat}`, silent: true });
      async function* list() {
        yield* upTo(3);
      }

      expect(await bot.broadcast(list(), message, { id: 'n1' })).toEqual({ done: 3, failed: 0 });
    });

    expect(lab.sent.map(({ reply }) => reply)).toEqual([
      { text: 'to chat 0', silent: true },
      { text: 'to chat 2', silent: true },
    ]);
  });

  test('sends a chat that is in the list twice its message once', async () => {
    const lab = new Lab();
    await lab.run(async () => {
      const { bot, provider } = await lab.replica();
      // So that the first is still on its way when the second comes.
      provider.onSend = () => lab.clock.sleep(100);

      expect(await bot.broadcast(['a', 'a', 'b', 'a'], 'news', { id: 'n1' })).toEqual({ done: 4, failed: 0 });
    });

    expect(lab.chats).toEqual(['a', 'b']);
  });

  test('with an exclusive provider waits until its replica has the connection', async () => {
    const lab = new Lab();
    await lab.run(async () => {
      const a = await lab.replica(undefined, true);
      await lab.clock.sleep(10);
      const b = await lab.replica(undefined, true);
      const sending = b.bot.broadcast(upTo(3), 'news', { id: 'n1' });
      await lab.clock.sleep(10_000);
      expect(lab.chats).toEqual([]);
      await a.bot.stop();

      await sending;
    });

    expect(lab.chats).toEqual(upTo(3));
  });

  test('a bot alone can do it too', async () => {
    const provider = new FakeProvider();
    const bot = new Bot({ provider, log: () => {} });
    await bot.start();

    expect(await bot.broadcast(upTo(100), 'news', { id: 'n1' })).toEqual({ done: 100, failed: 0 });
    await bot.stop();

    expect(provider.sent).toHaveLength(100);
  });

  test('what cannot work is refused', async () => {
    const bot = new Bot({ provider: new FakeProvider(), log: () => {} });
    const untyped = (value: unknown): never => value as never;
    await expect(bot.broadcast([], 'x', { id: 'x' })).rejects.toMatchObject({ code: 'not-started' });
    await bot.start();

    await expect(bot.broadcast(['a'], 'x', untyped({}))).rejects.toThrow(/no id/);
    await expect(bot.broadcast(untyped('a'), 'x', { id: 'x' })).rejects.toThrow(/expected a list/);
    await expect(bot.broadcast(['a'], untyped(5), { id: 'x' })).rejects.toThrow(/expected a text/);
    await expect(bot.broadcast(['a'], { text: 'x', when: new Date(0) }, { id: 'x' })).rejects.toThrow(/message.when/);
    await expect(bot.broadcast(['a', untyped(7)], 'x', { id: 'y' })).rejects.toThrow(/chat 1 of the list/);
    await expect(bot.broadcast(['a'], 'x', untyped({ id: 'x', signal: 1 }))).rejects.toThrow(/signal/);
    await bot.stop();
    await expect(bot.broadcast(['a'], 'x', { id: 'z' })).rejects.toMatchObject({ code: 'stopped' });
  });
});
