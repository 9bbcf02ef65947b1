// The Chat SDK (Vercel): its states as locks, polled every 10 ms as they have no wait of their own, and its own queue.
import { setTimeout as sleep } from 'node:timers/promises';

const TTL_MS = 12_000;
const POLL_MS = 10;
/** Its own limit is 10 messages a chat: what comes on top is dropped. */
const QUEUE_SIZE = 1_000_000;

const log = { debug() {}, info() {}, warn() {}, error() {}, child: () => log };

async function openState({ engine, where }) {
  const [url, prefix] = where.split(' ');
  if (engine === 'redis') {
    const { createIoRedisState } = await import('@chat-adapter/state-ioredis');
    return createIoRedisState({ url, keyPrefix: prefix, logger: log });
  }
  const { default: pg } = await import('pg');
  const { createPostgresState } = await import('@chat-adapter/state-pg');
  const client = new pg.Pool({ connectionString: url, max: 10 });
  client.on('error', () => {});
  return createPostgresState({ client, keyPrefix: prefix, logger: log, autoCreateSchema: true });
}

/** Two processes that make its tables at once disturb each other: again. */
async function connect(state) {
  for (let trial = 1; ; trial++) {
    try {
      return await state.connect();
    } catch (error) {
      if (trial === 10) throw error;
      await sleep(50 + 100 * Math.random());
    }
  }
}

export async function lock(at) {
  const state = await openState(at);
  await connect(state);
  return {
    async submit(chat, message) {
      let held = await state.acquireLock(chat, TTL_MS);
      while (!held) {
        await sleep(POLL_MS);
        held = await state.acquireLock(chat, TTL_MS);
      }
      const renewal = setInterval(() => state.extendLock(held, TTL_MS).catch(() => {}), TTL_MS / 3);
      message.placed();
      try {
        await message.handle();
      } finally {
        clearInterval(renewal);
        await state.releaseLock(held);
      }
    },
    close: () => state.disconnect(),
  };
}

/** Its handler gets the messages that waited as `skipped`: whoever wants every message handles those first. */
export async function queue(at) {
  const { Chat, Message } = await import('chat');
  const state = await openState(at);
  await connect(state);
  const adapter = {
    ...{ name: 'bench', userName: 'bot', initialize: async () => {}, isDM: () => true, openDM: async () => '' },
    ...{ channelIdFromThreadId: (id) => id, decodeThreadId: (id) => id, encodeThreadId: (id) => id },
  };
  const concurrency = { strategy: 'queue', maxQueueSize: QUEUE_SIZE };
  const bot = new Chat({ userName: 'bot', adapters: { bench: adapter }, state, logger: 'silent', concurrency });
  bot.onDirectMessage(async (_thread, message, _channel, context) => {
    for (const skipped of context?.skipped ?? []) await at.handle(skipped.text);
    await at.handle(message.text);
  });
  await bot.initialize();
  let ids = 0;
  return {
    submit(chat, { note }) {
      ids += 1;
      const threadId = `bench:${chat}`;
      const author = { userId: 'u', userName: 'u', fullName: 'u', isBot: false, isMe: false };
      const message = new Message({
        ...{ id: `${at.id}-${ids}`, threadId, text: note, formatted: { type: 'root', children: [] }, raw: {}, author },
        ...{ metadata: { dateSent: new Date(), edited: false }, attachments: [] },
      });
      return bot.processMessage(adapter, threadId, message);
    },
    close: () => bot.shutdown(),
  };
}
