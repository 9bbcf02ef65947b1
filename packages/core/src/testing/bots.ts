import { Bot } from '../bot/Bot.js';
import type { BotOptions } from '../bot/options.js';
import { MemoryCoordinator, type MemoryCoordinatorOptions } from '../coordination/MemoryCoordinator.js';
import { FakeProvider, type SentReply } from './FakeProvider.js';
import { MemoryMesh } from './MemoryMesh.js';

// Long enough for a busy machine: a test that waits for a lease to run out asks for a short one.
const LEASE_MS = 6_000;

export interface BotReplica {
  readonly bot: Bot;
  readonly provider: FakeProvider;
  readonly coordinator: MemoryCoordinator;
}

/** Replicas of a bot on one mesh in memory, with one platform behind them. */
export interface BotMesh {
  readonly leaseMs: number;
  readonly mesh: MemoryMesh;
  /** What was sent by all of them, in order. */
  readonly sent: SentReply[];
  /** What all of them logged. */
  readonly log: string[];
  readonly textsTo: (chat: string) => string[];
  /** A new replica, started. `set` teaches its bot. */
  readonly replica: (set: (bot: Bot) => unknown, options?: Partial<BotOptions>) => Promise<BotReplica>;
  /** A bot without a coordinator, started. */
  readonly alone: (
    set: (bot: Bot) => unknown,
    options?: Partial<BotOptions>,
  ) => Promise<{ bot: Bot; provider: FakeProvider }>;
  /** Stops every bot that was started. */
  close(): Promise<void>;
}

export function botMesh(options: MemoryCoordinatorOptions = {}): BotMesh {
  const { mesh = new MemoryMesh(), leaseMs = LEASE_MS } = options;
  const sent: SentReply[] = [];
  const log: string[] = [];
  const running: Bot[] = [];

  async function launch(provider: FakeProvider, set: (bot: Bot) => unknown, more: Partial<BotOptions>): Promise<Bot> {
    const bot = new Bot({ provider, retryDelayMs: 0, log: (line) => log.push(line), ...more });
    set(bot);
    running.push(bot);
    await bot.start();
    return bot;
  }

  return {
    leaseMs,
    mesh,
    sent,
    log,
    textsTo: (chat) => sent.filter((reply) => reply.chat === chat).map((reply) => reply.text),
    async replica(set, more = {}) {
      const coordinator = new MemoryCoordinator({ ...options, leaseMs, mesh });
      const provider = new FakeProvider({ sent });
      const bot = await launch(provider, set, { coordinator, ...more });
      return { bot, provider, coordinator };
    },
    async alone(set, more = {}) {
      const provider = new FakeProvider({ sent });
      return { bot: await launch(provider, set, more), provider };
    },
    async close() {
      await Promise.all(running.map((bot) => bot.stop({ drainMs: 0 })));
    },
  };
}

/** Something to wait for that a test opens. */
export function gate(): { open: () => void; opened: Promise<void> } {
  let open: () => void = () => {};
  const opened = new Promise<void>((resolve) => {
    open = resolve;
  });
  return { open, opened };
}

export const echo = (bot: Bot): Bot => bot.use((ctx) => ctx.reply(`echo ${ctx.message.text}`));
