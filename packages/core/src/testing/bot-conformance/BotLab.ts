import { Bot } from '../../bot/Bot.js';
import type { BotOptions } from '../../bot/options.js';
import type { Ended } from '../../pipeline/fate.js';
import { MemoryStateStore } from '../../state/MemoryStateStore.js';
import type { StateStore } from '../../state/state-store.js';
import type { Clock } from '../../time/clock.js';
import type { ConformanceMesh, ConformanceSubject, TestReplica } from '../conformance.js';
import { FakeProvider, type SentReply } from '../FakeProvider.js';
import { ReplicaClock } from '../ReplicaClock.js';
import { claim } from '../suite/claims.js';

/** A backend under test, with the state store that belongs to it. */
export interface BotSubject extends ConformanceSubject {
  /**
   * A state store that all replicas of one mesh share, empty. Default: one in memory. `clock` is the mesh's: where it is
   * virtual, hold it while a call is under way that takes real time.
   */
  openState?(clock: Clock): Promise<{ readonly store: StateStore; readonly close?: () => Promise<void> }>;
}

/** One replica of a bot, with its faults. */
export class LabBot {
  readonly bot: Bot;
  readonly provider: FakeProvider;
  readonly replica: TestReplica;
  /** What its process lives by: stands still while it is frozen, and for ever once it is dead. */
  readonly clock: ReplicaClock;

  constructor(bot: Bot, provider: FakeProvider, replica: TestReplica, clock: ReplicaClock) {
    this.bot = bot;
    this.provider = provider;
    this.replica = replica;
    this.clock = clock;
  }

  /** For handlers: never resolves when the process dies meanwhile. */
  sleep(ms: number): Promise<void> {
    return new Promise((resolve) => {
      this.clock.setTimer(ms, resolve);
    });
  }

  /** For handlers that never end. */
  hang(): Promise<void> {
    return new Promise(() => {});
  }

  crash(): void {
    this.replica.crash();
    this.clock.kill();
  }

  freeze(): void {
    this.replica.freeze();
    this.clock.freeze();
  }

  thaw(): void {
    this.replica.thaw();
    this.clock.thaw();
  }
}

/** Bots on one mesh, with one platform behind them. */
export class BotLab {
  readonly mesh: ConformanceMesh;
  /** From one due time to the next, in tests of schedules: long enough for what a busy machine does between. */
  readonly tickMs: number;
  readonly sent: SentReply[] = [];
  readonly errors: unknown[] = [];
  /** How messages ended, as the replicas that live told it. */
  readonly ends: Ended[] = [];
  readonly log: string[] = [];
  /** What all replicas keep the state of chats in. */
  readonly state: StateStore;
  readonly #bots: LabBot[] = [];

  constructor(mesh: ConformanceMesh, store: StateStore) {
    this.mesh = mesh;
    this.tickMs = Math.ceil(mesh.leaseMs / 2);
    this.state = store;
  }

  get leaseMs(): number {
    return this.mesh.leaseMs;
  }

  /** Within this time of a death somebody else has taken over, and begun. */
  get takenOverMs(): number {
    return this.leaseMs + this.leaseMs / 6 + 500 + 4 * this.mesh.slackMs;
  }

  /** A replica, started. `set` teaches its bot. */
  async bot(set: (bot: Bot, self: LabBot) => unknown, options: Partial<BotOptions> = {}): Promise<LabBot> {
    const replica = await this.mesh.replica({ start: false });
    const clock = new ReplicaClock(this.mesh.clock);
    const provider = new FakeProvider({ sent: this.sent });
    const bot = new Bot({
      provider,
      coordinator: replica.coordinator,
      state: this.state,
      clock,
      retryDelayMs: 0,
      log: (line) => this.log.push(line),
      onError: (error) => this.errors.push(error),
      ...options,
    });
    const self = new LabBot(bot, provider, replica, clock);
    this.#bots.push(self);
    bot.on('ended', (ended) => {
      if (!clock.isKilled) this.ends.push(ended);
    });
    set(bot, self);
    await bot.start();
    return self;
  }

  sleep(ms: number): Promise<void> {
    return this.mesh.sleep(ms);
  }

  /** Waits for `holds` for at most `ms`. */
  async until(ms: number, holds: () => boolean, what: string): Promise<void> {
    const untilMs = this.mesh.clock.monotonicMs() + ms;
    while (!holds() && this.mesh.clock.monotonicMs() < untilMs) await this.sleep(Math.max(1, this.leaseMs / 120));
    claim(holds(), `${what}: not within ${Math.round(ms)} ms`);
  }

  textsTo(chat: string): string[] {
    return this.sent.filter((reply) => reply.chat === chat).map(({ text }) => text);
  }

  /** How the messages of `chat` ended, by their ids. */
  endsOf(chat: string): string[] {
    return this.ends
      .filter((end) => end.chat === chat)
      .map(({ id, how, by }) => `${id} ${how}${by === undefined ? '' : ` by ${by.id}`}`);
  }

  /** Stops every bot that lives. */
  async close(): Promise<void> {
    for (const each of this.#bots) if (each.clock.isFrozen) each.thaw();
    const living = this.#bots.filter((each) => !each.clock.isKilled);
    const stops = living.map((each) => each.bot.stop({ drainMs: 0 }));
    await Promise.race([Promise.all(stops), this.sleep(this.leaseMs)]);
    for (const each of this.#bots) each.crash();
  }
}

/** Opens a mesh and its state, runs `body` on them, and closes them. */
export async function onBots(subject: BotSubject, body: (lab: BotLab) => Promise<void>): Promise<void> {
  const mesh = await subject.open();
  const { store, close } = (await subject.openState?.(mesh.clock)) ?? {
    store: new MemoryStateStore(),
    close: undefined,
  };
  try {
    await mesh.run(async () => {
      const lab = new BotLab(mesh, store);
      try {
        await body(lab);
      } finally {
        await lab.close();
      }
    });
  } finally {
    await mesh.run(() => mesh.close()).catch(() => {});
    await close?.();
  }
}
