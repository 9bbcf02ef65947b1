// A bot in a process of its own, whose handlers pay in one transaction: its parent ends it by signals. Says `begun` when a
// handler is in the middle of its transaction, `committed` after it, and with `kill` ends itself right then.
import { Bot } from '@botmesh/core';
import { PostgresCoordinator, PostgresStateStore } from '@botmesh/postgres';
import pg from 'pg';
import postgres from 'postgres';

const [url, library, end, maxAttempts] = process.argv.slice(2);
const client = library === 'pg' ? new pg.Pool({ connectionString: url }) : postgres(url);

const coordinator = new PostgresCoordinator({ client, leaseMs: 1800, maxAttempts: Number(maxAttempts) });
const bot = new Bot({
  provider: {
    name: 'parent',
    start: (intake) => process.on('message', (message) => void intake(message).then(() => process.send('taken'))),
    stop: () => {},
    send: () => {},
  },
  coordinator,
  state: new PostgresStateStore({ client }),
  log: () => {},
  onError: () => {},
});
bot.use(async (ctx) => {
  ctx.state.by = process.pid;
  const paying = ctx.transaction(async (sql) => {
    const text = 'insert into payments (chat, pid) values ($1, $2)';
    const values = [ctx.message.chat, process.pid];
    if (library === 'pg') await sql.query(text, values);
    else await sql.unsafe(text, values);
    process.send('begun');
    // The parent freezes it here.
    if (end === 'freeze') await new Promise((resolve) => setTimeout(resolve, 300));
  });
  await paying.catch((error) => {
    process.send(`refused ${error.code}`);
    throw error;
  });
  if (end === 'kill') process.kill(process.pid, 'SIGKILL');
  process.send('committed');
});
bot.on('ended', ({ how }) => process.send(`ended ${how}`));
await join(10);
await bot.start();
process.send('started');

/** On a busy machine it may take more than one attempt. */
async function join(attempts) {
  await coordinator.start().catch((error) => {
    if (attempts === 1 || error.code !== 'unavailable') throw error;
    return join(attempts - 1);
  });
}
process.on('disconnect', () => process.exit());
