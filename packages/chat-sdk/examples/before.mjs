import { createServer } from 'node:http';
import { nodeListener } from '@botmesh/core/spi';
import { createTelegramAdapter } from '@chat-adapter/telegram';
import { Chat } from 'chat';
import { createMemoryState } from './memory-state.mjs';

const chat = new Chat({
  userName: 'shop_bot',
  adapters: { telegram: createTelegramAdapter() },
  state: createMemoryState(),
});

chat.onDirectMessage(async (thread, message) => {
  const { count = 0 } = (await thread.state) ?? {};
  await thread.setState({ count: count + 1 });
  await thread.post(`${count + 1}: ${message.text}`);
});

const webhook = (request) => chat.webhooks.telegram(request, { waitUntil: (task) => void task });
createServer(nodeListener({ webhook })).listen(Number(process.env.PORT), () => console.log('listening'));
