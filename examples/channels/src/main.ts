// One bot on the platform that CHANNEL names: start it once, or as often as you like with REDIS_URL or DATABASE_URL.
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import process from 'node:process';
import { Bot } from '@botmesh/core';
import { nodeListener } from '@botmesh/core/spi';
import { PostgresCoordinator, PostgresStateStore } from '@botmesh/postgres';
import { RedisCoordinator, RedisStateStore } from '@botmesh/redis';
import { type Orders, takeOrders } from './order.js';
import { channelOf, settingsOf } from './settings.js';

const { port, drainMs, redisUrl, databaseUrl } = settingsOf(process.env);
const provider = channelOf(process.env);
const bot = new Bot<Orders>({ provider, onUnknownSend: 'resend', ...backendOf() });
takeOrders(bot);
bot.handleSignals({ drainMs });

if (provider.ended === undefined) {
  // It answers probes before the bot is ready, and the platform once it is.
  const server = createServer(nodeListener(bot)).listen(port);
  await once(server, 'listening');
  console.log(`listening on ${(server.address() as AddressInfo).port}`);
}
await bot.start();
if (provider.ended === undefined) {
  console.log('started');
} else {
  await provider.ended;
  await bot.stop(); // the replies are out by then
  process.exit();
}

/** How replicas agree. With neither, this process is alone, and says so. */
function backendOf() {
  if (redisUrl) {
    return { coordinator: new RedisCoordinator({ url: redisUrl }), state: new RedisStateStore({ url: redisUrl }) };
  }
  if (databaseUrl) {
    const state = new PostgresStateStore({ url: databaseUrl });
    return { coordinator: new PostgresCoordinator({ url: databaseUrl }), state };
  }
  return {};
}
