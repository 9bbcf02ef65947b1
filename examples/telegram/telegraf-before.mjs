import process from 'node:process';
import { session, Telegraf } from 'telegraf';

const apiRoot = process.env.API_ROOT ?? 'https://api.telegram.org';
const bot = new Telegraf(process.env.BOT_TOKEN, { telegram: { apiRoot } });

bot.use(session({ defaultSession: () => ({ count: 0 }) }));
bot.start((ctx) => ctx.reply('Write something.'));
bot.on('message', (ctx) => ctx.reply(`Message ${++ctx.session.count}`));
bot.catch((error) => console.error(error));

process.once('SIGTERM', () => bot.stop('SIGTERM'));
await bot.launch();
