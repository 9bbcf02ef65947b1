// One replica of a Bolt app in a process of its own. What it does is appended to a file that all processes share.
import { appendFileSync } from 'node:fs';
import { mesh } from '@botmesh/bolt';
import { App, LogLevel } from '@slack/bolt';

const { backend, diary, replicaId, leaseMs, slackApiUrl } = JSON.parse(process.argv[2]);
const note = (event, what = {}) => appendFileSync(diary, `${JSON.stringify({ replicaId, event, ...what })}\n`);
const { kind, ...reach } = backend;
const name = `${kind[0].toUpperCase()}${kind.slice(1)}Coordinator`;
const { [name]: Coordinator } = await import(`@botmesh/${kind}`);
const coordinator = new Coordinator({ replicaId, leaseMs, ...reach });
coordinator.on('superseded', () => note('superseded'));
coordinator.on('elected', () => note('elected'));

// What is expected here, Bolt would tell at length.
const quiet = {
  debug() {},
  info() {},
  warn() {},
  error() {},
  setLevel() {},
  getLevel: () => LogLevel.ERROR,
  setName() {},
};
const app = new App({
  token: 'xoxb-fake',
  appToken: 'xapp-fake',
  socketMode: true,
  logger: quiet,
  botId: 'B00FAKEBOT',
  botUserId: 'U00FAKEBOT',
  clientOptions: { slackApiUrl },
});
app.message(async ({ message, say, context }) => {
  const { channel: chat, text: id } = message;
  note('begun', { chat, id, attempt: context.botmesh.attempt });
  await new Promise((resolve) => setTimeout(resolve, 10));
  await say(id);
  note('done', { chat, id });
});

const replica = mesh(app, { coordinator, retryDelayMs: 20, log: () => {}, onError: () => {} });
replica.on('ended', ({ chat, id, how }) => note('ended', { chat, id: id?.split(':').at(-1), how }));
replica.handleSignals({ drainMs: 5_000 });
process.on('disconnect', () => process.exit());
await app.start();
process.send?.({ started: true });
