// One replica of a bot on WhatsApp in a process of its own: a web server, a Bot on Redis, and a diary that all share.
import { appendFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { Bot } from '@botmesh/core';
import { nodeListener } from '@botmesh/core/spi';
import { RedisCoordinator, RedisStateStore } from '@botmesh/redis';
import { whatsapp } from '@botmesh/whatsapp';

const { replicaId, diary, leaseMs, redisUrl, rates, workMs, ...platform } = JSON.parse(process.argv[2]);
const note = (event, what = {}) => appendFileSync(diary, `${JSON.stringify({ replicaId, event, ...what })}\n`);

const bot = new Bot({
  provider: whatsapp({
    ...platform,
    timeoutMs: 1_500,
    onStatus: ({ id, status }) => note('status', { id, how: status }),
  }),
  coordinator: new RedisCoordinator({ url: redisUrl, replicaId, leaseMs, maxAttempts: 20 }),
  state: new RedisStateStore({ url: redisUrl }),
  rates,
  onUnknownSend: 'resend',
  retryDelayMs: 5,
  onError: () => {},
  log: () => {},
});
bot.use(async (ctx) => {
  const { chat, id } = ctx.message;
  note('begun', { chat, id, attempt: ctx.attempt });
  await new Promise((resolve) => setTimeout(resolve, workMs));
  const last = typeof ctx.state.last === 'string' ? ctx.state.last : 'none';
  ctx.state.last = ctx.message.text;
  await ctx.reply(`${ctx.message.text} after ${last}`);
});
bot.on('ended', ({ chat, id, how }) => note('ended', { chat, id, how }));
bot.on('unknownSend', ({ chat, id, did }) => note('unknown', { chat, id, how: did }));

const server = createServer(nodeListener(bot));

bot.handleSignals({ drainMs: 5_000 });
await bot.start();
await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
// A parent that is gone leaves nobody to work for.
process.on('disconnect', () => process.exit());
process.send?.({ url: `http://127.0.0.1:${server.address().port}/whatsapp` });
