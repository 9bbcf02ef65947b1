// One replica of a bot on the channel that the test names, in a process of its own: a Bot on Redis, a diary that all share, and a
// web server where the channel is called.
import { appendFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { Bot } from '@botmesh/core';
import { nodeListener } from '@botmesh/core/spi';
import { RedisCoordinator, RedisStateStore } from '@botmesh/redis';

const { replicaId, diary, leaseMs, redisUrl, rates, channel, settings } = JSON.parse(process.argv[2]);
const note = (event, what = {}) => appendFileSync(diary, `${JSON.stringify({ replicaId, event, ...what })}\n`);
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** What cannot be told as JSON. */
const listeners = {
  slack: { log: () => {} },
  telegram: { log: () => {} },
  whatsapp: { onStatus: ({ id, status }) => note('status', { id, how: status }) },
};
const { [channel]: make } = await import(`@botmesh/${channel}`);
const provider = make({ ...settings, ...listeners[channel] });
const coordinator = new RedisCoordinator({ url: redisUrl, replicaId, leaseMs, maxAttempts: 20 });
const state = new RedisStateStore({ url: redisUrl });
const telling = { log: () => {}, onError: () => {} };
const bot = new Bot({ ...telling, provider, coordinator, state, rates, onUnknownSend: 'resend', retryDelayMs: 5 });
coordinator.on('elected', ({ name }) => {
  if (name.startsWith('provider:')) note('elected');
});
bot.use(async (ctx) => {
  const { chat, id, text } = ctx.message;
  note('begun', { chat, id, text, attempt: ctx.attempt });
  // `slow 500` takes so long.
  await sleep(Number(/^slow (\d+)$/.exec(text)?.[1] ?? 5));
  const last = typeof ctx.state.last === 'string' ? ctx.state.last : 'none';
  ctx.state.last = text;
  await ctx.reply(`${text} after ${last}`);
});
bot.on('ended', ({ chat, id, how }) => note('ended', { chat, id, how }));
bot.on('unknownSend', ({ chat, id, did }) => note('unknown', { chat, id, how: did }));

bot.handleSignals({ drainMs: 5_000 });
await start();

/** A machine that is busy may need more than one attempt, as a supervisor would make. */
async function start(attempts = 10) {
  try {
    await bot.start();
  } catch (error) {
    if (attempts === 1 || error.code !== 'unavailable') throw error;
    await start(attempts - 1);
  }
}

// A parent that is gone leaves nobody to work for.
process.on('disconnect', () => process.exit());
if (provider.webhook === undefined) {
  process.send?.({ started: true });
} else {
  const server = createServer(nodeListener(bot));
  server.listen(0, '127.0.0.1', () => process.send?.({ started: true, port: server.address().port }));
}
