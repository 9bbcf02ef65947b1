// Bots under every fault, on a virtual clock: what a chat hears and remembers is as if nothing had happened.
import { Bot } from '@botmesh/core';
import {
  FakeProvider,
  MemoryCoordinator,
  MemoryMesh,
  type SentReply,
  seededRandom,
  VirtualClock,
} from '@botmesh/core/testing';
import { expect, test } from 'vitest';

const REPLICAS = 3;
const CHATS = 12;
const MESSAGES = 12;
const LEASE_MS = 3_000;

interface Memory {
  seen?: string[];
}

interface Replica {
  readonly bot: Bot<Memory>;
  readonly provider: FakeProvider;
  readonly coordinator: MemoryCoordinator;
}

/** One run: chats write to whichever replica answers, while replicas crash, stop, freeze and lose the store. */
class Run {
  readonly clock: VirtualClock;
  readonly mesh: MemoryMesh;
  readonly sent: SentReply[] = [];
  readonly #random: () => number;
  readonly #replicas: Replica[] = [];
  #isOver = false;

  constructor(seed: number) {
    this.clock = new VirtualClock({ seed });
    this.mesh = new MemoryMesh({ clock: this.clock, seed });
    this.#random = seededRandom(seed);
  }

  async play(): Promise<void> {
    for (let i = 0; i < REPLICAS; i++) this.#replicas.push(await this.#launch());
    const faults = this.#disturb();
    await Promise.all(this.#chats().map((chat) => this.#write(chat)));
    this.#isOver = true;
    await faults;
    await this.#settle();
    for (const chat of this.#chats()) await this.#deliver({ chat, id: 'last', text: 'report' });
    await this.#settle();
    for (const { bot } of this.#replicas) await bot.stop();
  }

  #chats(): string[] {
    return Array.from({ length: CHATS }, (_, i) => `chat ${i}`);
  }

  async #launch(): Promise<Replica> {
    const { mesh, clock } = this;
    const provider = new FakeProvider({ sent: this.sent });
    const coordinator = new MemoryCoordinator({ mesh, leaseMs: LEASE_MS, maxAttempts: 1_000 });
    const bot = new Bot<Memory>({ provider, coordinator, clock, log: () => {}, onError: () => {} });
    bot.when('report', (ctx) => ctx.reply(`seen ${ctx.state.seen?.join()}`));
    bot.use(async (ctx) => {
      const { text } = ctx.message;
      ctx.state.seen = [...(ctx.state.seen ?? []), text];
      await this.#pause(0.5, 200);
      await ctx.reply(text);
      if (this.#random() < 0.1) throw new Error('by chance');
      await this.#pause(0.3, 100);
    });
    await bot.start();
    return { bot, provider, coordinator };
  }

  async #write(chat: string): Promise<void> {
    for (let i = 0; i < MESSAGES; i++) {
      await this.#deliver({ chat, id: `m${i}`, text: `${i}` });
      await this.#pause(0.5, 400);
    }
  }

  /** Tries replicas until one has taken the message in, as a platform does. */
  async #deliver(message: { chat: string; id: string; text: string }): Promise<void> {
    for (let isTaken = false; !isTaken; ) {
      const taken = this.#any().provider.receive(message);
      isTaken = await Promise.race([taken.then(yes, no), this.clock.sleep(1_000).then(no)]);
      if (!isTaken) await this.clock.sleep(50);
    }
  }

  async #disturb(): Promise<void> {
    while (!this.#isOver) {
      await this.clock.sleep(this.#random() * 600);
      const at = Math.floor(this.#random() * REPLICAS);
      const { coordinator, bot } = this.#replicas[at]!;
      const kind = this.#random();
      if (kind < 0.4) {
        coordinator.crash();
        this.#replicas[at] = await this.#launch();
      } else if (kind < 0.6) {
        void bot.stop({ drainMs: this.#random() * 300 });
        this.#replicas[at] = await this.#launch();
      } else if (kind < 0.8) {
        this.mesh.cut(coordinator);
        await this.clock.sleep(this.#random() * 2 * LEASE_MS);
        this.mesh.heal(coordinator);
      } else {
        this.mesh.freeze(coordinator);
        await this.clock.sleep(this.#random() * 2 * LEASE_MS);
        this.mesh.thaw(coordinator);
      }
    }
  }

  /** Resolves when no message is waiting or running. */
  async #settle(): Promise<void> {
    for (;;) {
      const views = await this.mesh.inspect();
      if (views.every((view) => view.queues.length === 0)) return;
      await this.clock.sleep(100);
    }
  }

  async #pause(chance: number, mostMs: number): Promise<void> {
    if (this.#random() < chance) await this.clock.sleep(this.#random() * mostMs);
  }

  #any(): Replica {
    return this.#replicas[Math.floor(this.#random() * REPLICAS)]!;
  }
}

const yes = () => true;
const no = () => false;

/** What a platform that goes by the idempotency key has shown of a chat. */
function shown(sent: readonly SentReply[], chat: string): string[] {
  const first = new Map<string, string>();
  for (const reply of sent) if (reply.chat === chat && !first.has(reply.key)) first.set(reply.key, reply.text);
  return [...first.values()];
}

test.each([...Array(100).keys()])(
  'each chat is answered and remembered in order, nothing lost and nothing twice: seed %i',
  async (seed) => {
    const run = new Run(seed);

    await run.clock.run(() => run.play());

    const all = [...Array(MESSAGES).keys()].map(String);
    for (let i = 0; i < CHATS; i++) {
      expect(shown(run.sent, `chat ${i}`)).toEqual([...all, `seen ${all.join()}`]);
    }
    expect(run.sent.length).toBeGreaterThan(CHATS * MESSAGES);
  },
);
