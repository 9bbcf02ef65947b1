import process from 'node:process';
import { setTimeout as sleep } from 'node:timers/promises';
import { Bot, webhook } from '@botmesh/core';
import { SqliteCoordinator, SqliteStateStore } from '@botmesh/sqlite';
import { serve } from './serve.js';

const { MESH_FILE: path = 'mesh.db', WEBHOOK_SECRET: secret = '', PORT = '3000' } = process.env;
if (secret === '')
  throw new Error('WEBHOOK_SECRET is not set. Set it to a long random text that the sender knows too.');

const state = new SqliteStateStore({ path });
const bot = new Bot<{ count?: number }>({
  // A real bot passes { replyUrl }, or a provider for its platform.
  provider: webhook({ secret, send: (chat, { text }) => console.log(`${chat}: ${text}`) }),
  coordinator: new SqliteCoordinator({ path }),
  state,
});

bot.use(async (ctx, next) => {
  ctx.state.count = (ctx.state.count ?? 0) + 1;
  await next();
});
bot.when('slow', async (ctx) => {
  await ctx.reply(`One moment. (process ${process.pid})`);
  await sleep(2_000, undefined, { signal: ctx.signal });
  await ctx.reply(`Message ${ctx.state.count} took a while. (process ${process.pid})`);
});
bot.use((ctx) => ctx.reply(`Message ${ctx.state.count}: ${ctx.message.text} (process ${process.pid})`));

await bot.start();
const server = await serve(bot, Number(PORT));
console.log(`process ${process.pid} listens on port ${server.port}`);

// Ctrl-C reaches every process of a terminal: it is the primary that ends the workers.
process.on('SIGINT', () => {});
process.once('SIGTERM', () => void stop());

async function stop(): Promise<void> {
  server.close();
  await bot.stop();
  await state.close();
  process.exit();
}
