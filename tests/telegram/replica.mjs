// One replica of a Telegram bot in a process of its own, in grammY or in Telegraf. What it does is seen at the platform.
import { createServer } from 'node:http';
import { nodeListener } from '@botmesh/core/spi';
import { openBackend } from './open-backend.mjs';

const { framework, backend, replicaId, leaseMs, apiRoot, token, secretToken } = JSON.parse(process.argv[2]);
const { coordinator, store } = await openBackend(backend, { replicaId, leaseMs });
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** Remembers what it was told, and says so. */
async function answer(ctx, text) {
  const { seen } = ctx.session;
  if (text === 'report') return ctx.reply(`report ${seen.join(' ')}`);
  await sleep(5);
  if (!seen.includes(text)) seen.push(text);
  return ctx.reply(text);
}

const options = { coordinator, log: () => {}, onError: () => {}, retryDelayMs: 5 };
const receiving = secretToken === undefined ? { pollSeconds: 1 } : { webhook: { secretToken } };

async function make() {
  if (framework === 'grammY') {
    const { Bot, session } = await import('grammy');
    const { replicate, sessionStorage } = await import('@botmesh/grammy');
    const bot = new Bot(token, { client: { apiRoot } });
    bot.use(session({ initial: () => ({ seen: [] }), storage: sessionStorage(store) }));
    bot.on('message:text', (ctx) => answer(ctx, ctx.message.text));
    return replicate(bot, { ...options, ...receiving });
  }
  const { session, Telegraf } = await import('telegraf');
  const { replicate, sessionStore } = await import('@botmesh/telegraf');
  const bot = new Telegraf(token, { telegram: { apiRoot } });
  bot.use(session({ defaultSession: () => ({ seen: [] }), store: sessionStore(store) }));
  bot.on('text', (ctx) => answer(ctx, ctx.message.text));
  return replicate(bot, { ...options, ...receiving });
}

const replica = await make();
coordinator.on('elected', ({ name }) => {
  if (name.startsWith('provider:')) process.send?.({ elected: true });
});
// A parent that is gone leaves nobody to work for.
process.on('disconnect', () => process.exit());
replica.handleSignals({ drainMs: 5_000 });
await replica.start();
if (secretToken === undefined) {
  process.send?.({ started: true });
} else {
  const server = createServer(nodeListener(replica));
  server.listen(0, '127.0.0.1', () => process.send?.({ started: true, port: server.address().port }));
}
