import process from 'node:process';
import { replicate, sessionStorage } from '@botmesh/grammy';
import { RedisCoordinator, RedisStateStore } from '@botmesh/redis';
import { Bot, session } from 'grammy';

const apiRoot = process.env.API_ROOT ?? 'https://api.telegram.org';
const url = process.env.REDIS_URL ?? 'redis://localhost:6379';
const bot = new Bot(process.env.BOT_TOKEN, { client: { apiRoot } });

bot.use(session({ initial: () => ({ count: 0 }), storage: sessionStorage(new RedisStateStore({ url })) }));
bot.command('start', (ctx) => ctx.reply('Write something.'));
bot.on('message', (ctx) => ctx.reply(`Message ${++ctx.session.count}`));
bot.catch((error) => console.error(error));

const replica = replicate(bot, { coordinator: new RedisCoordinator({ url }) });
replica.handleSignals();
await replica.start();
