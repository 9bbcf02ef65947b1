// The real Chat SDK behind a fake Bot API that delivers webhooks itself, and again until it hears 200.
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { MeshState, meshChat, telegramRoute } from '@botmesh/chat-sdk';
import { MemoryStateStore } from '@botmesh/core';
import { nodeListener } from '@botmesh/core/spi';
import { MemoryCoordinator } from '@botmesh/core/testing';
import { FakeTelegram } from '@botmesh/telegram/testing';
import { createTelegramAdapter } from '@chat-adapter/telegram';
import { type Adapter, Chat, ConsoleLogger } from 'chat';
import { expect, test } from 'vitest';

const secretToken = 'tests-own';

test('what comes before the replica has started is refused, delivered again, and handled once, in order', async () => {
  await using telegram = await FakeTelegram.start({ redeliverMs: 50 });
  const logger = new ConsoleLogger('silent');
  const adapter = createTelegramAdapter({
    apiUrl: telegram.apiRoot,
    botToken: telegram.token,
    mode: 'webhook',
    secretToken,
    logger,
  });
  const chat = new Chat({
    userName: 'test_bot',
    logger,
    state: new MeshState({ coordinator: new MemoryCoordinator(), store: new MemoryStateStore() }),
    adapters: { telegram: adapter as Adapter },
  });
  chat.onDirectMessage(async (thread, message) => void (await thread.post(`re ${message.text}`)));
  const mesh = meshChat(chat, { routes: { telegram: telegramRoute({ secretToken }) }, log: () => {} });
  const server = createServer(nodeListener({ webhook: (request) => chat.webhooks.telegram!(request) }));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  try {
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/telegram`;
    await fetch(`${telegram.apiRoot}/bot${telegram.token}/setWebhook`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ url, secret_token: secretToken }),
    });
    for (const text of ['one', 'two', 'three']) telegram.say(7, text);
    await telegram.until('a delivery was refused', ({ deliveries }) => deliveries.length > 0);

    await mesh.start();
    await telegram.until('all is answered', (fake) => fake.textsTo(7).length === 3);

    expect(telegram.textsTo(7)).toEqual(['re one', 're two', 're three']);
    expect(telegram.deliveries.length).toBeGreaterThan(3);
    expect(telegram.pending).toBe(0);
  } finally {
    server.closeAllConnections();
    server.close();
    await mesh.stop();
  }
});
