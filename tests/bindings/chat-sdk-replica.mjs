// One replica of a bot of the Chat SDK, in a process of its own: its webhook is a port, its platform a fake.
import { createServer } from 'node:http';
import { MeshState, meshChat, telegramRoute } from '@botmesh/chat-sdk';
import { nodeListener } from '@botmesh/core/spi';
import { createTelegramAdapter } from '@chat-adapter/telegram';
import { Chat, ConsoleLogger } from 'chat';
import { openBackend } from './open-backend.mjs';

const { backend, replicaId, leaseMs, telegram, secretToken } = JSON.parse(process.argv[2]);
const { coordinator, store } = await openBackend(backend, { replicaId, leaseMs });
const logger = new ConsoleLogger('silent');
const chat = new Chat({
  userName: 'test_bot',
  logger,
  state: new MeshState({ coordinator, store }),
  adapters: {
    telegram: createTelegramAdapter({
      apiUrl: telegram,
      botToken: `1:${replicaId}`,
      mode: 'webhook',
      secretToken,
      logger,
    }),
  },
});

/** "text" is answered at once, "text ms" after so long. */
chat.onDirectMessage(async (thread, message) => {
  const [text, ms = '0'] = message.text.split(' ');
  if (ms !== '0') await new Promise((resolve) => setTimeout(resolve, Number(ms)));
  await thread.post(text);
});

const mesh = meshChat(chat, {
  routes: { telegram: telegramRoute({ secretToken }) },
  retryDelayMs: 10,
  log: () => {},
});
mesh.bot.handleSignals({ drainMs: 5_000 });
await mesh.start();

const server = createServer(nodeListener({ webhook: (request) => chat.webhooks.telegram(request) }));
await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
process.on('disconnect', () => process.exit());
process.send?.({ port: server.address().port });
