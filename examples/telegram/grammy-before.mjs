import process from 'node:process';
import { Bot, session } from 'grammy';

const apiRoot = process.env.API_ROOT ?? 'https://api.telegram.org';
const bot = new Bot(process.env.BOT_TOKEN, { client: { apiRoot } });

bot.use(session({ initial: () => ({ count: 0 }) }));
bot.command('start', (ctx) => ctx.reply('Write something.'));
bot.on('message', (ctx) => ctx.reply(`Message ${++ctx.session.count}`));
bot.catch((error) => console.error(error));

process.once('SIGTERM', () => void bot.stop());
await bot.start();
