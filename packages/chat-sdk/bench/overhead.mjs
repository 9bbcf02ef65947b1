// What the binding costs beside the SDK alone: the same messages by webhook, in turns within each round, Telegram answering
// at once. Run: node packages/chat-sdk/bench/overhead.mjs   (with REDIS_URL also over Redis)
import { MemoryStateStore } from '@botmesh/core';
import { MemoryCoordinator } from '@botmesh/core/testing';
import { createTelegramAdapter } from '@chat-adapter/telegram';
import { Chat, ConsoleLogger } from 'chat';
import { MeshState, meshChat, telegramRoute } from '../dist/index.js';
import { createMemoryState } from '../examples/memory-state.mjs';

const ROUNDS = 5;
const MESSAGES = 300;
/** One message each, so that the SDK alone drops none. */
const CHATS = 300;
const SECRET = 'bench';
const logger = new ConsoleLogger('silent');

globalThis.fetch = async (url) =>
  Response.json({
    ok: true,
    result: `${url}`.endsWith('/getMe')
      ? { id: 9, is_bot: true, first_name: 'b', username: 'b' }
      : { message_id: 1, date: 0, chat: { id: 1, type: 'private' } },
  });

let updates = 0;
function request() {
  const id = ++updates;
  const chat = { id: 1 + (id % CHATS), type: 'private' };
  const message = { message_id: id, date: 1, chat, from: { id: chat.id, is_bot: false, first_name: 'a' }, text: 'hi' };
  return new Request('http://localhost/', {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'x-telegram-bot-api-secret-token': SECRET },
    body: JSON.stringify({ update_id: id, message }),
  });
}

async function open(state) {
  const adapter = createTelegramAdapter({ botToken: '1:b', mode: 'webhook', secretToken: SECRET, logger });
  const chat = new Chat({ userName: 'b', logger, state, adapters: { telegram: adapter } });
  const counted = { chat, handled: 0 };
  chat.onDirectMessage(async (thread) => {
    await thread.post('ok');
    counted.handled++;
  });
  return counted;
}

const peers = {
  'the SDK alone, state in memory': async () => ({ ...(await open(createMemoryState())), stop() {} }),
  'the binding, in memory': () => bound(new MemoryCoordinator(), new MemoryStateStore()),
};
if (process.env.REDIS_URL) {
  const { RedisCoordinator, RedisStateStore } = await import('@botmesh/redis');
  const url = process.env.REDIS_URL;
  peers['the binding, on Redis'] = () =>
    bound(
      new RedisCoordinator({ url, namespace: `b${Date.now()}` }),
      new RedisStateStore({ url, namespace: `b${Date.now()}` }),
    );
}

async function bound(coordinator, store) {
  const counted = await open(new MeshState({ coordinator, store }));
  const mesh = meshChat(counted.chat, { routes: { telegram: telegramRoute({ secretToken: SECRET }) }, log() {} });
  await mesh.start();
  return Object.assign(counted, { stop: () => mesh.stop({ drainMs: 0 }) });
}

const median = (list) => list.toSorted((a, b) => a - b)[Math.floor(list.length / 2)];
const cpu = Object.fromEntries(Object.keys(peers).map((name) => [name, []]));
const opened = await Promise.all(Object.entries(peers).map(async ([name, make]) => [name, await make()]));
for (const [, peer] of opened) {
  await peer.chat.initialize();
  await peer.chat.webhooks.telegram(request(), { waitUntil() {} });
  // A new mesh on a server that has run before waits out what it may not know of.
  while (peer.handled === 0) await new Promise((resolve) => setTimeout(resolve, 50));
}
for (let round = 0; round <= ROUNDS; round++) {
  for (const [name, peer] of opened) {
    peer.handled = 0;
    const startCpu = process.cpuUsage();
    const answers = [];
    for (let n = 0; n < MESSAGES; n++) answers.push(peer.chat.webhooks.telegram(request(), { waitUntil() {} }));
    const statuses = new Set((await Promise.all(answers)).map(({ status }) => status));
    if (statuses.size !== 1 || !statuses.has(200)) throw new Error(`${name}: ${[...statuses].join()}`);
    // What the SDK alone drops, because its chat is busy, is never handled: nothing more comes, and that is its end.
    for (let before = -1; peer.handled < MESSAGES && before !== peer.handled; ) {
      before = peer.handled;
      await new Promise((resolve) => setTimeout(resolve, 500));
    }
    const used = process.cpuUsage(startCpu);
    if (round > 0) cpu[name].push((used.user + used.system) / 1000 / peer.handled);
    if (round === ROUNDS) console.log(`${name}: ${peer.handled} of ${MESSAGES} handled`);
  }
}
for (const [, peer] of opened) await peer.stop();

const [alone] = Object.keys(peers);
for (const name of Object.keys(peers)) {
  const ratios = cpu[name].map((each, at) => each / cpu[alone][at]);
  console.log(
    `${name}: ${median(cpu[name]).toFixed(2)} ms CPU a handled message, × ${median(ratios).toFixed(2)} (${Math.min(...ratios).toFixed(2)}–${Math.max(...ratios).toFixed(2)})`,
  );
}
