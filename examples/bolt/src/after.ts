import { mesh } from '@botmesh/bolt';
import { RedisCoordinator } from '@botmesh/redis';
import { App } from '@slack/bolt';

const { REDIS_URL = 'redis://127.0.0.1:6379' } = process.env;
const { SLACK_BOT_TOKEN = '', SLACK_APP_TOKEN = '', SLACK_API_URL = 'https://slack.com/api/' } = process.env;
const app = new App({
  token: SLACK_BOT_TOKEN,
  appToken: SLACK_APP_TOKEN,
  socketMode: true,
  clientOptions: { slackApiUrl: SLACK_API_URL },
});

app.message(/^add (.+)/, async ({ context, say }) => {
  const [, item] = context.matches as [string, string];
  await say(`Added ${item}.`);
});

app.command('/order', async ({ ack, command, say }) => {
  await ack('One moment.');
  await say(`Ordered ${command.text}.`);
});

mesh(app, { coordinator: new RedisCoordinator({ url: REDIS_URL, namespace: 'orders' }) }).handleSignals();
await app.start();
console.log('ready');
