// One replica of a bot on Slack in a process of its own: Socket Mode, a Bot on Redis, and a diary that all share.
import { appendFileSync } from 'node:fs';
import { Bot } from '@botmesh/core';
import { RedisCoordinator, RedisStateStore } from '@botmesh/redis';
import { slack } from '@botmesh/slack';

const { replicaId, diary, leaseMs, redisUrl, rates, workMs, apiUrl } = JSON.parse(process.argv[2]);
const note = (event, what = {}) => appendFileSync(diary, `${JSON.stringify({ replicaId, event, ...what })}\n`);

const coordinator = new RedisCoordinator({ url: redisUrl, replicaId, leaseMs, maxAttempts: 20 });
const bot = new Bot({
  provider: slack({ token: 'xoxb-fake', appToken: 'xapp-fake', apiUrl, log: () => {} }),
  coordinator,
  state: new RedisStateStore({ url: redisUrl }),
  rates,
  onUnknownSend: 'resend',
  retryDelayMs: 5,
  onError: () => {},
  log: () => {},
});
coordinator.on('elected', () => note('elected'));
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

bot.handleSignals({ drainMs: 5_000 });
await bot.start();
// A parent that is gone leaves nobody to work for.
process.on('disconnect', () => process.exit());
process.send?.('started');
