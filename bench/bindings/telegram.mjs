// What the bindings of grammY and Telegraf cost a message, over the bare framework: the same updates, the same handler.
// After a build: node bench/bindings/telegram.mjs [redis url]. Prints ratios of times, the median of rounds and their range.

import { MemoryCoordinator } from '@botmesh/core/testing';
import { replicate as replicateGrammy } from '@botmesh/grammy';
import { RedisCoordinator } from '@botmesh/redis';
import { replicate as replicateTelegraf } from '@botmesh/telegraf';
import { FakeTelegram } from '@botmesh/telegram/testing';
import { Bot } from 'grammy';
import { Telegraf } from 'telegraf';

const url = process.argv[2];
const ROUNDS = 7;
const MESSAGES = 1_000;
const CHATS = 50;
const secretToken = 'bench';
let nextId = 1;

const updates = () =>
  Array.from({ length: MESSAGES }, (_, n) => {
    const id = 1 + (n % CHATS);
    const chat = { id, type: 'private', first_name: 'Person' };
    return {
      update_id: nextId++,
      message: { message_id: n + 1, date: 0, chat, from: { ...chat, is_bot: false }, text: 'x' },
    };
  });

function requestOf(update) {
  const headers = { 'content-type': 'application/json', 'x-telegram-bot-api-secret-token': secretToken };
  return new Request('http://localhost/', { method: 'POST', headers, body: JSON.stringify(update) });
}

function makeBot(framework, fake, onMessage) {
  const apiRoot = fake.apiRoot;
  const bot =
    framework === 'grammY'
      ? new Bot(fake.token, { client: { apiRoot } })
      : new Telegraf(fake.token, { telegram: { apiRoot } });
  bot.on('message', onMessage);
  return bot;
}

/** Bare: chats side by side, the updates of one after each other, as the runner's sequentialize does. */
async function bare(framework, fake, onMessage) {
  const bot = makeBot(framework, fake, onMessage);
  if (framework === 'grammY') await bot.init();
  else bot.botInfo = await bot.telegram.getMe();
  return {
    run: async (list) => {
      const last = new Map();
      for (const update of list) {
        const chat = update.message.chat.id;
        last.set(
          chat,
          (last.get(chat) ?? Promise.resolve()).then(() => bot.handleUpdate(JSON.parse(JSON.stringify(update)))),
        );
      }
      await Promise.all(last.values());
    },
    stop: async () => {},
  };
}

async function bound(framework, fake, onMessage, coordinator) {
  let left = 0;
  let done = () => {};
  const bot = makeBot(framework, fake, onMessage);
  const replicate = framework === 'grammY' ? replicateGrammy : replicateTelegraf;
  const replica = replicate(bot, { coordinator, webhook: { secretToken }, log: () => {} });
  replica.on('ended', () => {
    if (--left === 0) done();
  });
  await replica.start();
  return {
    run: async (list) => {
      left = list.length;
      const all = new Promise((resolve) => (done = resolve));
      await Promise.all(list.map((update) => replica.webhook(requestOf(update))));
      await all;
    },
    stop: () => replica.stop(),
  };
}

const median = (list) => list.toSorted((a, b) => a - b)[Math.floor(list.length / 2)];

async function measure(framework, what, onMessage) {
  const fake = await FakeTelegram.start();
  const contenders = { bare: await bare(framework, fake, onMessage) };
  contenders.memory = await bound(framework, fake, onMessage, new MemoryCoordinator());
  if (url !== undefined) {
    const namespace = `bench-${process.pid}-${framework}-${what.length}`;
    contenders.Redis = await bound(
      framework,
      fake,
      onMessage,
      new RedisCoordinator({ url, namespace, leaseMs: 6_000, dedupeMs: 60_000 }),
    );
  }
  for (const contender of Object.values(contenders)) await contender.run(updates());
  const times = Object.fromEntries(Object.keys(contenders).map((name) => [name, []]));
  for (let round = 0; round < ROUNDS; round++) {
    for (const [name, contender] of Object.entries(contenders)) {
      const list = updates();
      const startMs = performance.now();
      await contender.run(list);
      times[name].push(performance.now() - startMs);
      fake.calls.length = 0;
    }
  }
  console.log(`${framework}, ${what}: bare ${((1_000 * median(times.bare)) / MESSAGES).toFixed(0)} µs a message`);
  for (const name of Object.keys(contenders).slice(1)) {
    const ratios = times[name].map((ms, round) => ms / times.bare[round]);
    const [least, most] = [Math.min(...ratios), Math.max(...ratios)].map((ratio) => ratio.toFixed(2));
    console.log(`  over ${name}: × ${median(ratios).toFixed(2)} (${least} to ${most})`);
  }
  for (const contender of Object.values(contenders)) await contender.stop();
  await fake.stop();
}

for (const framework of ['grammY', 'Telegraf']) {
  await measure(framework, 'a handler that answers', (ctx) => ctx.reply('y'));
  await measure(framework, 'a handler that does nothing', () => {});
}
process.exit();
