// A bot in a process of its own: its parent plays the platform, and ends it by signals. What it did is appended to a file
// that all processes share: a line written in one go, so that the file has one order and a killed process loses none.
import { appendFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { Bot } from '@botmesh/core';
import { SqliteCoordinator, SqliteStateStore } from '@botmesh/sqlite';

const [path, diary, replicaId] = process.argv.slice(2);
const note = (what) => appendFileSync(diary, `${JSON.stringify({ replicaId, ...what })}\n`);

let intake;
const provider = {
  name: 'parent',
  start(take) {
    intake = take;
  },
  stop() {
    intake = undefined;
  },
  send(chat, { text }) {
    note({ event: 'sent', chat, text });
  },
};

const bot = new Bot({
  provider,
  coordinator: new SqliteCoordinator({ path, replicaId }),
  state: new SqliteStateStore({ path }),
  log: () => {},
});
bot.use(async (ctx) => {
  const { chat, text } = ctx.message;
  note({ event: 'begun', chat, text, attempt: ctx.attempt });
  await sleep(5 + (Number(text) % 7) * 5);
  const sum = Number(ctx.state.sum ?? 0) + Number(text);
  ctx.state.sum = sum;
  await ctx.reply(`${text} ${sum}`);
});
bot.on('ended', ({ chat, id, how }) => note({ event: 'ended', chat, id, how }));
bot.handleSignals({ drainMs: 5_000 });

async function receive(message) {
  try {
    if (intake === undefined) throw Object.assign(new Error('not connected'), { code: 'not-started' });
    process.send?.({ id: message.id, answer: await intake(message) });
  } catch (error) {
    process.send?.({ id: message.id, refused: error.code ?? String(error) });
  }
}
process.on('message', (message) => void receive(message));
await bot.start();
process.send?.({ started: true });
