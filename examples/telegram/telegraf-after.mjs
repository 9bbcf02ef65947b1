import process from 'node:process';
import { RedisCoordinator, RedisStateStore } from '@botmesh/redis';
import { replicate, sessionStore } from '@botmesh/telegraf';
import { session, Telegraf } from 'telegraf';

const apiRoot = process.env.API_ROOT ?? 'https://api.telegram.org';
const url = process.env.REDIS_URL ?? 'redis://localhost:6379';
const bot = new Telegraf(process.env.BOT_TOKEN, { telegram: { apiRoot } });

bot.use(session({ defaultSession: () => ({ count: 0 }), store: sessionStore(new RedisStateStore({ url })) }));
bot.start((ctx) => ctx.reply('Write something.'));
bot.on('message', (ctx) => ctx.reply(`Message ${++ctx.session.count}`));
bot.catch((error) => console.error(error));

const replica = replicate(bot, { coordinator: new RedisCoordinator({ url }) });
replica.handleSignals();
await replica.start();
