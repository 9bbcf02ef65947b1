import { Bot, type Provider } from '@botmesh/core';
import type { ChatTurn } from '@botmesh/core/spi';
import { MemoryCoordinator, MemoryMesh } from '@botmesh/core/testing';
import type { Message } from '../lib/Checker.js';
import { PromiseChain } from './PromiseChain.js';

/** What is done with each message, under the fence of its turn where there is one. */
export type Handler = (message: Message, fence?: number) => Promise<void>;

/** A way to handle the messages of each chat one at a time, in order. Open for one run. */
export interface Line {
  /** Resolves when the message was handled. */
  submit(message: Message): Promise<void>;
  close(): Promise<void>;
}

export interface Contender {
  readonly name: string;
  /** How many callers submit independently: each keeps its order, none knows of the others. */
  readonly lanes: number;
  open(handle: Handler): Promise<Line>;
}

const chain: Contender = {
  name: 'promise chain',
  lanes: 1,
  async open(handle) {
    const chats = new PromiseChain();
    return {
      submit: (message) => chats.run(message.chat, () => handle(message)),
      close: async () => {},
    };
  },
};

const turns: Contender = {
  name: 'turns',
  lanes: 1,
  async open(handle) {
    const [coordinator] = await start(1);
    return {
      async submit(message) {
        const ticket = await coordinator!.reserve(message.chat);
        await handleTurn(await coordinator!.acquireTurn(ticket), message, handle);
      },
      close: () => coordinator!.stop(),
    };
  },
};

const twoReplicas: Contender = {
  name: 'turns, 2 replicas',
  lanes: 2,
  async open(handle) {
    const replicas = await start(2);
    return {
      async submit(message) {
        const replica = replicas[message.lane]!;
        const ticket = await replica.reserve(message.chat);
        await handleTurn(await replica.acquireTurn(ticket), message, handle);
      },
      close: async () => {
        await Promise.all(replicas.map((replica) => replica.stop()));
      },
    };
  },
};

const accepted: Contender = {
  name: 'accepted messages',
  lanes: 1,
  async open(handle) {
    const [coordinator] = await start(1);
    let ids = 0;
    return {
      async submit(message) {
        ids += 1;
        const ticket = await coordinator!.accept(message.chat, { id: String(ids), body: TEXT });
        await handleTurn(await coordinator!.acquireTurn(ticket!), message, handle);
      },
      close: () => coordinator!.stop(),
    };
  },
};

/** One text handler; replies nothing, leaves the chat's state alone. Durable, as `accepted messages` is. */
const bot: Contender = {
  name: 'Bot',
  lanes: 1,
  async open(handle) {
    const platform = new Platform();
    const coordinator = new MemoryCoordinator();
    const program = new Bot({ provider: platform, coordinator, log: () => {} });
    program.when(/^hello/, (ctx) => platform.handled(ctx.message.raw as number, handle));
    await program.start();
    return {
      submit: (message) => platform.deliver(message),
      close: () => program.stop(),
    };
  },
};

export const contenders: readonly Contender[] = [chain, turns, twoReplicas, accepted, bot];

const TEXT = 'hello, is anybody there?';

/** A platform that knows when its message was handled: each carries the number of the slot in which its caller waits. */
class Platform implements Provider {
  readonly name = 'bench';
  readonly #waiting: ({ message: Message; resolve: () => void } | undefined)[] = [];
  readonly #free: number[] = [];
  #intake: Parameters<Provider['start']>[0] | undefined;
  #ids = 0;

  start(intake: Parameters<Provider['start']>[0]): void {
    this.#intake = intake;
  }

  stop(): void {
    this.#intake = undefined;
  }

  send(): void {}

  deliver(message: Message): Promise<void> {
    return new Promise((resolve) => {
      const slot = this.#free.pop() ?? this.#waiting.length;
      this.#waiting[slot] = { message, resolve };
      this.#ids += 1;
      void this.#intake!({ chat: message.chat, id: String(this.#ids), text: TEXT, raw: slot });
    });
  }

  async handled(slot: number, handle: Handler): Promise<void> {
    const { message, resolve } = this.#waiting[slot]!;
    await handle(message);
    this.#waiting[slot] = undefined;
    this.#free.push(slot);
    resolve();
  }
}

async function start(count: number): Promise<MemoryCoordinator[]> {
  const mesh = new MemoryMesh();
  const replicas = Array.from({ length: count }, () => new MemoryCoordinator({ mesh }));
  await Promise.all(replicas.map((replica) => replica.start()));
  return replicas;
}

async function handleTurn(turn: ChatTurn, message: Message, handle: Handler): Promise<void> {
  await handle(message, turn.fence);
  await turn.release();
}
