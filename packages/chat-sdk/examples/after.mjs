import { createServer } from 'node:http';
import { MeshState, meshChat } from '@botmesh/chat-sdk';
import { nodeListener } from '@botmesh/core/spi';
import { RedisCoordinator, RedisStateStore } from '@botmesh/redis';
import { createTelegramAdapter } from '@chat-adapter/telegram';
import { Chat } from 'chat';

const url = process.env.REDIS_URL;
const chat = new Chat({
  userName: 'shop_bot',
  adapters: { telegram: createTelegramAdapter() },
  state: new MeshState({ coordinator: new RedisCoordinator({ url }), store: new RedisStateStore({ url }) }),
});

chat.onDirectMessage(async (thread, message) => {
  const { count = 0 } = (await thread.state) ?? {};
  await thread.setState({ count: count + 1 });
  await thread.post(`${count + 1}: ${message.text}`);
});

const mesh = meshChat(chat);
mesh.bot.handleSignals();
await mesh.start();

const webhook = (request) => chat.webhooks.telegram(request);
createServer(nodeListener({ webhook })).listen(Number(process.env.PORT), () => console.log('listening'));
