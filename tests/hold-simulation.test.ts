// Keys that chats share, under every fault, on a virtual clock: whatever happens, each message counts once under each key.
import { Bot, type ChatState, MemoryStateStore } from '@botmesh/core';
import { FakeProvider, MemoryCoordinator, MemoryMesh, seededRandom, VirtualClock } from '@botmesh/core/testing';
import { expect, test } from 'vitest';

const REPLICAS = 3;
const CHATS = 8;
const USERS = ['ana', 'ben', 'cleo'];
const MESSAGES = 8;
const LEASE_MS = 3_000;

interface Count {
  count?: number;
}

interface Replica {
  readonly bot: Bot<ChatState, Count, Count>;
  readonly provider: FakeProvider;
  readonly coordinator: MemoryCoordinator;
}

class Simulation {
  readonly clock: VirtualClock;
  readonly mesh: MemoryMesh;
  readonly #store = new MemoryStateStore();
  readonly #random: () => number;
  readonly #replicas: Replica[] = [];
  #isOver = false;

  constructor(seed: number) {
    this.clock = new VirtualClock({ seed });
    this.mesh = new MemoryMesh({ clock: this.clock, seed, shards: 1 + (seed % 3) });
    this.#random = seededRandom(seed);
  }

  async play(): Promise<void> {
    for (let n = 0; n < REPLICAS; n++) this.#replicas.push(await this.#launch());
    const harm = this.#harm();
    await Promise.all(Array.from({ length: CHATS }, (_, n) => this.#write(n)));
    this.#isOver = true;
    await harm;
    await this.#settle();
    for (const { bot } of this.#replicas) await bot.stop();
  }

  async countOf(key: string): Promise<number | undefined> {
    const found = (await this.#store.load(`botmesh:hold:${key}`))?.value as { data: Count } | undefined;
    return found?.data.count;
  }

  async #launch(): Promise<Replica> {
    const coordinator = new MemoryCoordinator({ mesh: this.mesh, leaseMs: LEASE_MS, maxAttempts: 1_000 });
    const { clock } = this.mesh.rigOf(coordinator);
    const provider = new FakeProvider();
    const bot = new Bot<ChatState, Count, Count>({
      provider,
      coordinator,
      clock,
      state: this.#store,
      log: () => {},
      onError: () => {},
      retryDelayMs: 10,
    });
    const pause = async (mostMs: number): Promise<void> => {
      const delayMs = this.#random() * mostMs;
      await new Promise<void>((resolve) => {
        clock.setTimer(delayMs, resolve);
      });
    };
    bot.use(async (ctx) => {
      const user = await ctx.hold('user');
      await pause(30);
      user.state.count = (user.state.count ?? 0) + 1;
      if (this.#random() < 0.1) throw new Error('by chance');
      // A later key in its turn, and an earlier one that is refused for good.
      if (this.#random() < 0.5) {
        const z = await ctx.hold('z');
        await pause(10);
        z.state.seen = ctx.message.id;
      }
      const refused = await ctx.hold('global').then(
        () => false,
        () => true,
      );
      if (!refused) throw new Error('a key that comes before one that is held was given');
    });
    await bot.start();
    return { bot, provider, coordinator };
  }

  async #write(chat: number): Promise<void> {
    for (let n = 0; n < MESSAGES; n++) {
      const message = { chat: `chat ${chat}`, id: `m${n}`, from: USERS[(chat + n) % USERS.length]!, text: 'x' };
      for (let isTaken = false; !isTaken; ) {
        const { provider } = this.#replicas[Math.floor(this.#random() * REPLICAS)]!;
        const taken = provider.receive(message).then(yes, no);
        isTaken = await Promise.race([taken, this.clock.sleep(1_000).then(no)]);
        if (!isTaken) await this.clock.sleep(50);
      }
      await this.clock.sleep(this.#random() * 300);
    }
  }

  async #harm(): Promise<void> {
    while (!this.#isOver) {
      await this.clock.sleep(this.#random() * 800);
      const at = Math.floor(this.#random() * REPLICAS);
      const { bot, coordinator } = this.#replicas[at]!;
      const kind = this.#random();
      if (kind < 0.3) {
        coordinator.crash();
        this.#replicas[at] = await this.#launch();
      } else if (kind < 0.5) {
        void bot.stop({ drainMs: this.#random() * 300 });
        this.#replicas[at] = await this.#launch();
      } else if (kind < 0.75) {
        this.mesh.cut(coordinator);
        await this.clock.sleep(this.#random() * 2 * LEASE_MS);
        this.mesh.heal(coordinator);
      } else {
        this.mesh.freeze(coordinator);
        await this.clock.sleep(this.#random() * 2 * LEASE_MS);
        this.mesh.thaw(coordinator, { first: this.#random() < 0.5 ? 'timers' : 'arrivals' });
      }
    }
  }

  /** Resolves when no message is waiting or running. Fails when that takes so long that something waits for ever. */
  async #settle(): Promise<void> {
    for (let n = 0; n < 3_000; n++) {
      const views = await this.mesh.inspect();
      if (views.every((view) => view.queues.length === 0)) return;
      await this.clock.sleep(100);
    }
    throw new Error('Handlers wait for each other.');
  }
}

const yes = () => true;
const no = () => false;

test.each([...Array(60).keys()])('each message counts once under its user’s key: seed %i', async (seed) => {
  const simulation = new Simulation(seed);

  await simulation.clock.run(() => simulation.play());

  let sum = 0;
  for (const user of USERS) sum += (await simulation.countOf(`user:${user}`)) ?? 0;
  expect(sum).toBe(CHATS * MESSAGES);
});
