import { MemoryStateStore } from '@botmesh/core';
import type { StateStore } from '@botmesh/core/spi';
import { MemoryCoordinator, MemoryMesh } from '@botmesh/core/testing';
import { createTelegramAdapter } from '@chat-adapter/telegram';
import { type Adapter, Chat, type ConcurrencyConfig, ConsoleLogger, type Message, type Thread } from 'chat';
import { afterEach, expect, test, vi } from 'vitest';
import { delivery, FakeTelegram, SECRET, update } from '../testing/FakeTelegram.js';
import { chatVersion, checkChatVersion } from './chat-version.js';
import { MeshState } from './MeshState.js';
import { type MeshChatOptions, meshChat } from './meshChat.js';
import type { WebhookRoute } from './routes.js';
import { telegramRoute } from './telegram-route.js';

type Handler = (thread: Thread, message: Message) => Promise<void>;

const closing: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

class Lab {
  readonly mesh = new MemoryMesh();
  readonly store: StateStore = new MemoryStateStore();
  readonly log: string[] = [];
  readonly telegram: FakeTelegram;

  private constructor(telegram: FakeTelegram) {
    this.telegram = telegram;
  }

  static async open(): Promise<Lab> {
    const telegram = await FakeTelegram.open();
    closing.push(() => telegram[Symbol.asyncDispose]());
    return new Lab(telegram);
  }

  chat(coordinator: MemoryCoordinator, mode: 'webhook' | 'polling' = 'webhook', concurrency?: ConcurrencyConfig) {
    const { telegram, store } = this;
    return new Chat({
      userName: 'test_bot',
      ...(concurrency === undefined ? {} : { concurrency }),
      state: new MeshState({ coordinator, store }),
      logger: new ConsoleLogger('silent'),
      adapters: {
        telegram: createTelegramAdapter({
          apiUrl: telegram.url,
          botToken: '1:t',
          mode,
          secretToken: SECRET,
          logger: new ConsoleLogger('silent'),
        }) as Adapter,
      },
    });
  }

  async replica(handler: Handler, options: MeshChatOptions = {}, concurrency?: ConcurrencyConfig) {
    const coordinator = new MemoryCoordinator({ mesh: this.mesh });
    const chat = this.chat(coordinator, 'webhook', concurrency);
    chat.onDirectMessage(handler);
    const mesh = meshChat(chat, {
      routes: { telegram: telegramRoute({ secretToken: SECRET }) },
      retryDelayMs: 1,
      log: (line) => this.log.push(line),
      ...options,
    });
    closing.push(() => mesh.stop({ drainMs: 0 }));
    await mesh.start();
    const deliver = async (body: unknown, secret?: string) =>
      (await chat.webhooks.telegram!(delivery(body, secret))).status;
    return { chat, mesh, coordinator, deliver };
  }

  /** Waits until the chat was sent so many texts. */
  async texts(chat: number, count: number): Promise<string[]> {
    await vi.waitFor(() => expect(this.telegram.texts(chat).length).toBeGreaterThanOrEqual(count), 5_000);
    return this.telegram.texts(chat);
  }
}

function withOtherState(chat: Chat): Chat {
  return Object.create(chat, { getState: { value: () => ({}) } }) as Chat;
}

const echo: Handler = async (thread, message) => void (await thread.post(`re ${message.text}`));

test('twenty messages of one chat over two replicas are handled one at a time, in order, each once', async () => {
  const lab = await Lab.open();
  let running = 0;
  let most = 0;
  const slow: Handler = async (thread, message) => {
    most = Math.max(most, ++running);
    await new Promise((resolve) => setTimeout(resolve, 3));
    await thread.post(message.text);
    running--;
  };
  const [a, b] = [await lab.replica(slow), await lab.replica(slow)];

  const statuses = [];
  for (let n = 1; n <= 20; n++) statuses.push(await (n % 2 ? a : b).deliver(update(n, 7, `${n}`)));

  expect(new Set(statuses)).toEqual(new Set([200]));
  expect(await lab.texts(7, 20)).toEqual(Array.from({ length: 20 }, (_, n) => `${n + 1}`));
  expect(most).toBe(1);
});

test('an update that is delivered again, to another replica, is handled once', async () => {
  const lab = await Lab.open();
  const [a, b] = [await lab.replica(echo), await lab.replica(echo)];

  const statuses = [await a.deliver(update(1, 7, 'hi')), await b.deliver(update(1, 7, 'hi'))];
  await b.deliver(update(2, 7, 'end'));

  expect(statuses).toEqual([200, 200]);
  expect(await lab.texts(7, 2)).toEqual(['re hi', 're end']);
});

test('a message whose replica dies while the SDK has it is handled by another one, before those that came after', async () => {
  const lab = await Lab.open();
  let begun = 0;
  const hangs: Handler = () => {
    begun++;
    return new Promise(() => {});
  };
  const [a, b] = [await lab.replica(hangs), await lab.replica(echo)];
  await a.deliver(update(1, 7, 'one'));
  await vi.waitFor(() => expect(begun).toBe(1));
  await b.deliver(update(2, 7, 'two'));

  a.coordinator.crash();

  expect(await lab.texts(7, 2)).toEqual(['re one', 're two']);
});

test('a handler that throws is tried again in its place, as often as it may be, and the next message goes on', async () => {
  const lab = await Lab.open();
  const tries: string[] = [];
  const a = await lab.replica(async (thread, { text }) => {
    tries.push(text);
    if (text === 'bad' || tries.length === 1) throw new Error('handler');
    await thread.post(text);
  });

  for (const [n, text] of ['once', 'bad', 'good'].entries()) await a.deliver(update(n + 1, 7, text));

  expect(await lab.texts(7, 2)).toEqual(['once', 'good']);
  expect(tries).toEqual(['once', 'once', 'bad', 'bad', 'bad', 'bad', 'bad', 'good']);
  expect(await a.mesh.bot.parked()).toHaveLength(1);
});

test("with handlerErrors 'log' a handler that throws is tried once, as by the SDK alone", async () => {
  const lab = await Lab.open();
  const tries: string[] = [];
  const a = await lab.replica(
    async (thread, { text }) => {
      tries.push(text);
      if (text === 'bad') throw new Error('handler');
      await thread.post(text);
    },
    { handlerErrors: 'log' },
  );

  await a.deliver(update(1, 7, 'bad'));
  await a.deliver(update(2, 7, 'good'));

  expect(await lab.texts(7, 1)).toEqual(['good']);
  expect(tries).toEqual(['bad', 'good']);
});

test('an edit within the time in which the SDK knows the message is not handled again, as by the SDK alone', async () => {
  const lab = await Lab.open();
  const a = await lab.replica(echo);
  const { message } = update(1, 7, 'first') as { message: object };

  await a.deliver({ update_id: 1, message });
  await a.deliver({ update_id: 2, edited_message: { ...message, text: 'edited' } });
  await a.deliver(update(3, 7, 'last'));

  expect(await lab.texts(7, 2)).toEqual(['re first', 're last']);
});

test.each(['queue', 'burst', 'debounce', 'concurrent'] as const)(
  'with the SDK’s own concurrency %s each message is handled, alone and in order',
  async (strategy) => {
    const lab = await Lab.open();
    const a = await lab.replica(echo, {}, { strategy, debounceMs: 5 });

    for (const [n, text] of ['1', '2', '3'].entries()) await a.deliver(update(n + 1, 7, text));

    expect(await lab.texts(7, 3)).toEqual(['re 1', 're 2', 're 3']);
  },
);

test('the parts of an album are one message to the handler', async () => {
  const lab = await Lab.open();
  const a = await lab.replica(async (thread, message) => {
    await thread.post(`${message.text || 'none'}, ${message.attachments.length} attached`);
  });
  const photo = [{ file_id: 'f', file_unique_id: 'u', width: 1, height: 1 }];
  const part = (id: number, more: object = {}) => {
    const { text: _none, ...message } = update(id, 7, '').message as Record<string, unknown>;
    return { update_id: id, message: { ...message, photo, media_group_id: 'g', ...more } };
  };

  for (const body of [part(1, { caption: 'three' }), part(2), part(3)]) await a.deliver(body);

  expect(await lab.texts(7, 1)).toEqual(['three, 3 attached']);
});

test('what has neither chat nor a known kind is taken in, and told of loudly, once', async () => {
  const lab = await Lab.open();
  const a = await lab.replica(echo);

  const statuses = [];
  for (const body of [
    { update_id: 1, poll: { id: 'p' } },
    { update_id: 2, poll: { id: 'q' } },
    { update_id: 3, hologram: { chat: { id: 7 } } },
    { update_id: 4, hologram: { chat: { id: 7 } } },
    { update_id: 5 },
  ])
    statuses.push(await a.deliver(body));

  expect(new Set(statuses)).toEqual(new Set([200]));
  const warnings = lab.log.filter((line) => line.includes('WARNING: telegram'));
  expect(warnings.map((line) => /'(\w+)'/.exec(line)?.[1])).toEqual(['poll', 'hologram', 'undefined']);
});

test('what is not from Telegram is refused before it is taken in', async () => {
  const lab = await Lab.open();
  const a = await lab.replica(echo);

  expect(await a.deliver(update(1, 7, 'forged'), 'wrong')).toBe(401);
  expect(await a.deliver('no json')).toBe(400);
  await a.deliver(update(2, 7, 'true'));

  expect(await lab.texts(7, 1)).toEqual(['re true']);
});

test('a body of more than a megabyte is not read to its end, whoever sends it, and one that breaks off is refused', async () => {
  const lab = await Lab.open();
  const { chat } = await lab.replica(echo);
  let sent = 0;
  const part = new Uint8Array(100_000).fill(32);
  const post = (pull: (controller: ReadableStreamDefaultController) => void) =>
    chat.webhooks.telegram!(
      new Request('https://bot.example/', {
        method: 'POST',
        body: new ReadableStream({ pull }),
        duplex: 'half',
      } as never),
    );

  const endless = await post((controller) => {
    sent += part.length;
    controller.enqueue(part);
  });
  const broken = await post((controller) => controller.error(new Error('gone')));

  expect([endless.status, broken.status]).toEqual([413, 400]);
  expect(sent).toBeLessThan(2_000_000);
});

test('what a route throws at is refused, told of without its contents, and taken in by nobody', async () => {
  const lab = await Lab.open();
  const route: WebhookRoute = {
    read: ({ body }) => ({ chat: (JSON.parse(body) as { chat: string }).chat }),
  };
  const a = await lab.replica(echo, { routes: { telegram: route } });

  expect(await a.deliver('{ secret')).toBe(400);

  expect(lab.log.join()).toContain('the route of adapter telegram could not read a request (SyntaxError)');
  expect(lab.log.join()).not.toContain('secret');
});

test('webhooks are answered with 503 before start(), after stop() and while the backend does not answer', async () => {
  const lab = await Lab.open();
  const coordinator = new MemoryCoordinator({ mesh: lab.mesh });
  const chat = lab.chat(coordinator);
  const mesh = meshChat(chat, { routes: { telegram: telegramRoute({ secretToken: SECRET }) }, log: () => {} });
  const status = async () => (await chat.webhooks.telegram!(delivery(update(1, 7, 'hi')))).status;

  const before = await status();
  await mesh.start();
  coordinator.crash();
  const cut = await status();
  await mesh.stop();

  expect([before, cut, await status()]).toEqual([503, 503, 503]);
});

test('a turn that is lost sends nothing more by the SDK, and its state is not written', async () => {
  const lab = await Lab.open();
  const outcomes: unknown[] = [];
  let resume: (() => void) | undefined;
  const late: Handler = async (thread) => {
    await new Promise<void>((resolve) => {
      resume = resolve;
    });
    outcomes.push(await thread.post('late').catch((error: unknown) => error));
    outcomes.push(await thread.setState({ late: true }).catch((error: unknown) => error));
  };
  const a = await lab.replica(late);
  const b = await lab.replica(echo);
  await a.deliver(update(1, 7, 'one'));
  await vi.waitFor(() => expect(resume).toBeDefined());

  a.coordinator.crash();
  await lab.texts(7, 1);
  resume?.();

  await vi.waitFor(() => expect(outcomes).toHaveLength(2));
  expect(outcomes).toMatchObject([{ code: 'lease-lost' }, { code: 'lease-lost' }]);
  expect(lab.telegram.texts(7)).toEqual(['re one']);
  expect(await b.chat.getState().get('thread-state:telegram:7')).toBeNull();
});

test('a coordinator in memory behind a webhook, and an adapter that polls, are warned of loudly', async () => {
  const lab = await Lab.open();
  await lab.replica(echo);
  expect(lab.log.join('\n')).toContain('WARNING: chat-sdk receives by webhook, but the coordinator is in this process');

  const chat = lab.chat(new MemoryCoordinator(), 'polling');
  const mesh = meshChat(chat, {
    routes: { telegram: telegramRoute({ secretToken: SECRET }) },
    log: (line) => lab.log.push(line),
  });
  closing.push(() => mesh.stop({ drainMs: 0 }));
  await mesh.start();
  expect(lab.log.join('\n')).toContain('WARNING: adapter telegram polls');
});

test('a Chat is bound once, with a MeshState of its own, and a route for each adapter', async () => {
  const lab = await Lab.open();
  const routes = { telegram: telegramRoute({ secretToken: SECRET }) };
  const coordinator = new MemoryCoordinator();
  const chat = lab.chat(coordinator);
  meshChat(chat, { routes });
  const refusals = [
    () => meshChat(chat, { routes }),
    () => meshChat(withOtherState(chat)),
    () => meshChat(lab.chat(coordinator)),
    () => meshChat(lab.chat(coordinator), { routes: { ...routes, slack: routes.telegram } }),
    () => meshChat(lab.chat(coordinator), { routes, retries: 3 } as never),
    () => meshChat(lab.chat(coordinator), { routes, handlerErrors: 'drop' as never }),
  ];

  for (const refused of refusals) expect(refused).toThrow(expect.objectContaining({ code: 'config' }));
});

test('the version of the SDK that is installed is known, and one outside of the range is refused by name', () => {
  expect(chatVersion()).toBe('4.41.1');
  expect(() => checkChatVersion(chatVersion())).not.toThrow();
  expect(() => checkChatVersion('4.40.9')).toThrow('chat 4.40.9 is installed');
  expect(() => checkChatVersion('5.0.0')).toThrow(expect.objectContaining({ code: 'config' }));
});
