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

globalThis.fetch = async (/** @type {string} */ url) =>
  Response.json({
    ok: true,
    result: url.endsWith('/getMe')
      ? { id: 9, is_bot: true, first_name: 'b', username: 'b' }
      : { message_id: 1, date: 0, chat: { id: 1, type: 'private' } },
  });

let updates = 0;
function request() {
  const id = ++updates;
  const chat = { id: 1_000 + (id % CHATS), type: 'private' };
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
  const counter = { handled: 0 };
  chat.onDirectMessage(async (thread) => {
    await thread.post('ok');
    counter.handled++;
  });
  return { chat, counter, stop: async () => chat.shutdown() };
}

const peers = [
  { name: 'the SDK alone, state in memory', cpu: [], ...(await open(createMemoryState())) },
  { name: 'the binding, in memory', cpu: [], ...(await bound(new MemoryCoordinator(), new MemoryStateStore())) },
];
if (process.env.REDIS_URL) {
  const { RedisCoordinator, RedisStateStore } = await import('@botmesh/redis');
  const url = process.env.REDIS_URL;
  const onRedis = await bound(new RedisCoordinator({ url }), new RedisStateStore({ url }));
  peers.push({ name: 'the binding, on Redis', cpu: [], ...onRedis });
}

async function bound(coordinator, store) {
  const opened = await open(new MeshState({ coordinator, store }));
  const mesh = meshChat(opened.chat, { routes: { telegram: telegramRoute({ secretToken: SECRET }) }, log() {} });
  await mesh.start();
  return { ...opened, stop: () => mesh.stop({ drainMs: 0 }) };
}

const median = (list) => list.toSorted((a, b) => a - b)[Math.floor(list.length / 2)];
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const deliver = ({ chat }) => chat.webhooks.telegram(request(), { waitUntil() {} });
for (const peer of peers) {
  await peer.chat.initialize();
  await deliver(peer);
  // A new mesh on a server that has run before waits out what it may not know of.
  while (peer.counter.handled === 0) await pause(50);
}
for (let round = 0; round <= ROUNDS; round++) {
  for (const peer of peers) {
    const { counter, cpu, name } = peer;
    counter.handled = 0;
    const startCpu = process.cpuUsage();
    const answers = await Promise.all(Array.from({ length: MESSAGES }, () => deliver(peer)));
    if (answers.some(({ status }) => status !== 200)) throw new Error(`${name}: not all was taken in`);
    while (counter.handled < MESSAGES) await pause(20);
    const used = process.cpuUsage(startCpu);
    if (round > 0) cpu.push((used.user + used.system) / 1000 / counter.handled);
    if (round === ROUNDS) console.log(`${name}: ${counter.handled} of ${MESSAGES} handled`);
  }
}
for (const peer of peers) await peer.stop();

const [alone] = peers;
for (const { name, cpu } of peers) {
  const ratios = cpu.map((each, at) => each / alone.cpu[at]);
  const [least, most] = [Math.min(...ratios), Math.max(...ratios)];
  console.log(
    `${name}: ${median(cpu).toFixed(2)} ms of CPU a message, × ${median(ratios).toFixed(2)} (${least.toFixed(2)}–${most.toFixed(2)})`,
  );
}
