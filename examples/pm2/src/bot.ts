import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import process from 'node:process';
import { Readable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { Bot, webhook } from '@botmesh/core';
import { SqliteCoordinator, SqliteStateStore } from '@botmesh/sqlite';

const { MESH_FILE: path = 'mesh.db', WEBHOOK_SECRET: secret = '', PORT = '3000' } = process.env;

const state = new SqliteStateStore({ path });
const bot = new Bot<{ count?: number }>({
  // A real bot passes { replyUrl }, or a provider for its platform.
  provider: webhook({ secret, send: (chat, { text }) => console.log(`${chat}: ${text}`) }),
  coordinator: new SqliteCoordinator({ path }),
  state,
});

bot.when('slow', async (ctx) => {
  ctx.state.count = (ctx.state.count ?? 0) + 1;
  await ctx.reply(`One moment. (process ${process.pid})`);
  await sleep(2_000, undefined, { signal: ctx.signal });
  await ctx.reply(`Message ${ctx.state.count} took a while. (process ${process.pid})`);
});
bot.use(async (ctx) => {
  ctx.state.count = (ctx.state.count ?? 0) + 1;
  await ctx.reply(`Message ${ctx.state.count}: ${ctx.message.text} (process ${process.pid})`);
});

await bot.start();
const server = createServer((incoming, outgoing) => void answer(incoming, outgoing));
server.listen(Number(PORT), () => {
  console.log(`process ${process.pid} listens on port ${(server.address() as AddressInfo).port}`);
  // What `wait_ready` waits for.
  process.send?.('ready');
});

// `pm2 reload` and `pm2 stop` send SIGINT, and SIGKILL after `kill_timeout`.
process.once('SIGINT', () => void stop());

async function answer(incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
  const { method = 'GET', url = '/', headers } = incoming;
  const init = { method, headers: headers as Record<string, string> };
  const body = method === 'POST' ? { body: Readable.toWeb(incoming), duplex: 'half' as const } : {};
  const response = await bot.webhook(new Request(new URL(url, 'http://localhost'), { ...init, ...body }));
  outgoing.writeHead(response.status, Object.fromEntries(response.headers)).end(await response.text());
}

async function stop(): Promise<void> {
  server.close();
  await bot.stop();
  await state.close();
  process.exit();
}
