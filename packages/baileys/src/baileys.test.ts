import { MemoryStateStore } from '@botmesh/core';
import { MemoryCoordinator, MemoryMesh } from '@botmesh/core/testing';
import { afterEach, expect, test, vi } from 'vitest';
import { FakeWhatsApp } from '../testing/FakeWhatsApp.js';
import { makeFakeSocket } from '../testing/fake-socket.mjs';
import { type BaileysBot, baileys } from './baileys.js';
import type { BaileysEvent, BaileysOptions, WaContext } from './options.js';
import type { WaMessage } from './socket.js';

const closing: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

const textOf = (message: WaMessage): string => (message.message as { conversation: string }).conversation;

class Lab {
  readonly mesh = new MemoryMesh();
  readonly store = new MemoryStateStore();
  readonly events: (BaileysEvent & { by: string })[] = [];
  readonly log: string[] = [];
  readonly platform: FakeWhatsApp;

  private constructor(platform: FakeWhatsApp) {
    this.platform = platform;
  }

  static async open(): Promise<Lab> {
    const platform = await FakeWhatsApp.open();
    closing.push(() => platform[Symbol.asyncDispose]());
    return new Lab(platform);
  }

  async replica(by: string, options: Partial<BaileysOptions> = {}) {
    const coordinator = (options.coordinator as MemoryCoordinator) ?? new MemoryCoordinator({ mesh: this.mesh });
    const bot = baileys({
      store: this.store,
      accounts: ['main'],
      connect: ({ account, auth }) => makeFakeSocket({ port: this.platform.port, account, auth, by }),
      initAuthCreds: () => ({}),
      onMessage: (message, wa) => wa.send({ text: `re ${textOf(message)}` }),
      onEvent: (event) => this.events.push({ ...event, by }),
      log: (line) => this.log.push(line),
      balanceMs: 20,
      firstDelayMs: 20,
      retryDelayMs: 1,
      ...options,
      coordinator,
    });
    closing.push(() => bot.stop({ drainMs: 0 }));
    await bot.start();
    return { bot, coordinator };
  }

  async until(holds: () => void): Promise<void> {
    await vi.waitFor(holds, { timeout: 8_000, interval: 5 });
  }

  async texts(jid: string, count: number, account = 'main'): Promise<string[]> {
    await this.until(() => expect(this.platform.texts(account, jid).length).toBeGreaterThanOrEqual(count));
    return this.platform.texts(account, jid);
  }

  count(kind: BaileysEvent['kind']): number {
    return this.events.filter((event) => event.kind === kind).length;
  }
}

test('messages of a chat are handled one at a time and in order, each once, also when told twice', async () => {
  const lab = await Lab.open();
  let running = 0;
  let most = 0;
  await lab.replica('a', {
    async onMessage(message, wa) {
      most = Math.max(most, ++running);
      await new Promise((resolve) => setTimeout(resolve, 2));
      await wa.send({ text: textOf(message) });
      running--;
    },
  });
  await lab.until(() => expect(lab.platform.holder('main')).toBe('a'));

  for (let n = 1; n <= 20; n++) lab.platform.deliver('main', { id: `${n}`, jid: 'ana', text: `${n}` });
  lab.platform.repeat('main', { id: '3', jid: 'ana', text: '3' });
  lab.platform.deliver('main', { id: '21', jid: 'ana', text: 'end' });

  expect(await lab.texts('ana', 21)).toEqual([...Array.from({ length: 20 }, (_, n) => `${n + 1}`), 'end']);
  expect(most).toBe(1);
});

test('a message comes to its handler with its bytes, its key and its chat', async () => {
  const lab = await Lab.open();
  const seen: [WaMessage, WaContext][] = [];
  await lab.replica('a', { onMessage: (message, wa) => seen.push([message, wa]) });
  lab.platform.deliver('main', { id: 'id', jid: 'ana', text: 'hi' });

  await lab.until(() => expect(seen).toHaveLength(1));

  const [message, wa] = seen[0]!;
  expect(message).toMatchObject({ key: { remoteJid: 'ana', id: 'id' }, secret: Buffer.from('id') });
  expect(wa).toMatchObject({ account: 'main', chat: 'ana', attempt: 1 });
});

test('six accounts on three replicas that come one after the other: two each, never one twice at a time', async () => {
  const lab = await Lab.open();
  const accounts = ['1', '2', '3', '4', '5', '6'];
  const bots: BaileysBot[] = [];

  for (const by of ['a', 'b', 'c']) bots.push((await lab.replica(by, { accounts })).bot);

  await lab.until(() => expect(bots.map((bot) => bot.accounts.length)).toEqual([2, 2, 2]));
  await lab.until(() => expect(new Set(accounts.map((name) => lab.platform.holder(name))).size).toBe(3));
  expect(lab.platform.thrownOut).toEqual([]);
});

test('when a replica stops its accounts are taken over, each after its socket is closed, and what waits is handled', async () => {
  const lab = await Lab.open();
  const accounts = ['1', '2'];
  const a = await lab.replica('a', { accounts });
  await lab.until(() => expect(a.bot.accounts).toHaveLength(2));
  await lab.replica('b', { accounts });
  for (const account of accounts) lab.platform.deliver(account, { id: 'x', jid: 'ana', text: 'x' });

  await a.bot.stop();

  for (const account of accounts) expect(await lab.texts('ana', 1, account)).toEqual(['re x']);
  await lab.until(() => expect(accounts.map((name) => lab.platform.holder(name))).toEqual(['b', 'b']));
  expect(lab.platform.thrownOut).toEqual([]);
});

test('the accounts of a replica that died are taken over, and its message is handled again before the next', async () => {
  const lab = await Lab.open();
  let begun = 0;
  const a = await lab.replica('a', {
    onMessage: () => {
      begun++;
      return new Promise(() => {});
    },
  });
  await lab.until(() => expect(lab.platform.holder('main')).toBe('a'));
  await lab.replica('b');
  for (const id of ['1', '2']) lab.platform.deliver('main', { id, jid: 'ana', text: id });
  await lab.until(() => expect(begun).toBe(1));

  a.coordinator.crash();

  expect(await lab.texts('ana', 2)).toEqual(['re 1', 're 2']);
  expect(lab.platform.sent.map(({ by }) => by)).toEqual(['b', 'b']);
});

test('thrown out by a stranger (440) while it leads, it says so and waits longer each time', async () => {
  const lab = await Lab.open();
  lab.platform.refusals.set('main', 440);
  await lab.replica('a', { firstDelayMs: 40, longestDelayMs: 10_000 });

  await lab.until(() => expect(lab.count('replaced')).toBe(3));

  const delays = lab.events.flatMap((event) => (event.kind === 'replaced' ? [event.retryInMs] : []));
  expect(delays).toEqual([40, 80, 160]);
  expect(lab.platform.logins.length).toBeLessThanOrEqual(4);
  expect(lab.log.join('\n')).toContain("account 'main' was thrown out (440)");
});

test('thrown out by its successor, a replica that has lost the lead stays down', async () => {
  const lab = await Lab.open();
  const a = await lab.replica('a');
  await lab.until(() => expect(lab.platform.holder('main')).toBe('a'));

  a.coordinator.crash();
  await lab.replica('b');
  await lab.until(() => expect(lab.platform.holder('main')).toBe('b'));
  await new Promise((resolve) => setTimeout(resolve, 200));

  expect(lab.platform.logins.map(({ by }) => by)).toEqual(['a', 'b']);
  expect(lab.count('replaced')).toBe(0);
});

test('told to restart (515) it connects again at once, and again and again only with pauses', async () => {
  const lab = await Lab.open();
  await lab.replica('a', { firstDelayMs: 60_000 });
  await lab.until(() => expect(lab.platform.holder('main')).toBe('a'));

  lab.platform.close('main', 515);
  await lab.until(() => expect(lab.platform.logins).toHaveLength(2));
  lab.platform.refusals.set('main', 515);
  lab.platform.close('main', 515);
  await lab.until(() => expect(lab.platform.logins).toHaveLength(4));
  await new Promise((resolve) => setTimeout(resolve, 200));

  expect(lab.platform.logins).toHaveLength(4);
});

test('logged out (401), an account is given up with an event, and the others go on', async () => {
  const lab = await Lab.open();
  lab.platform.refusals.set('gone', 401);
  const a = await lab.replica('a', { accounts: ['gone', 'main'] });

  await lab.until(() => expect(lab.platform.holder('main')).toBe('a'));
  await lab.until(() => expect(lab.count('loggedOut')).toBe(1));
  await new Promise((resolve) => setTimeout(resolve, 200));

  expect(lab.platform.logins.filter(({ account }) => account === 'gone')).toHaveLength(1);
  expect(a.bot.accounts).toEqual(['main']);
});

test('a handler that throws is tried again in its place, as often as it may be', async () => {
  const lab = await Lab.open();
  const tries: string[] = [];
  await lab.replica('a', {
    async onMessage(message, wa) {
      const text = textOf(message);
      tries.push(`${text} ${wa.attempt}`);
      if (text === 'bad') throw new Error('handler');
      await wa.send({ text });
    },
  });
  for (const text of ['bad', 'good']) lab.platform.deliver('main', { id: text, jid: 'ana', text });

  expect(await lab.texts('ana', 1)).toEqual(['good']);
  expect(tries).toEqual(['bad 1', 'bad 2', 'bad 3', 'bad 4', 'bad 5', 'good 1']);
});

test('a handler whose replica was given up sends nothing more', async () => {
  const lab = await Lab.open();
  const outcomes: unknown[] = [];
  let resume: (() => void) | undefined;
  const a = await lab.replica('a', {
    async onMessage(_message, wa) {
      await new Promise<void>((resolve) => {
        resume = resolve;
      });
      outcomes.push(await wa.send({ text: 'late' }).catch((error: unknown) => error));
    },
  });
  lab.platform.deliver('main', { id: '1', jid: 'ana', text: '1' });
  await lab.until(() => expect(resume).toBeDefined());

  a.coordinator.crash();
  await lab.replica('b');
  await lab.texts('ana', 1);
  resume?.();

  await lab.until(() => expect(outcomes).toMatchObject([{ code: 'lease-lost' }]));
  expect(lab.platform.texts('main', 'ana')).toEqual(['re 1']);
});

test('a message of no chat, and one that cannot be kept, are told of and disturb nobody', async () => {
  const lab = await Lab.open();
  await lab.replica('a');

  lab.platform.deliver('main', { id: '1', text: 'no chat' });
  lab.platform.deliver('main', { id: '2', jid: 'ana', text: 'hi' });

  expect(await lab.texts('ana', 1)).toEqual(['re hi']);
  expect(lab.count('ignored')).toBe(1);
  expect(lab.log.join('\n')).toContain('a message without key.remoteJid');
});

test('a listener that throws or rejects disturbs no account and no message, and is told of', async () => {
  const lab = await Lab.open();
  let count = 0;
  const onEvent = (): unknown => {
    if (count++ % 2 === 0) throw new Error('a broken listener');
    return Promise.reject(new Error('a broken listener'));
  };
  const { bot } = await lab.replica('a', { accounts: ['main', 'gone'], onEvent });

  lab.platform.deliver('main', { id: '1', text: 'no chat' });
  lab.platform.deliver('main', { id: '2', jid: 'ana', text: 'hi' });
  expect(await lab.texts('ana', 1)).toEqual(['re hi']);
  await lab.until(() => expect(bot.accounts).toContain('gone'));
  lab.platform.close('gone', 401);

  await lab.until(() => expect(bot.accounts).toEqual(['main']));
  await lab.until(() => expect(lab.log.join('\n')).toContain("onEvent failed at 'loggedOut'"));
});

test('a bot whose connect() never comes back stops all the same, and what connects too late is closed', async () => {
  const lab = await Lab.open();
  const ends: unknown[] = [];
  let connected = (_socket: unknown): void => {};
  const connect = () =>
    new Promise<never>((resolve) => {
      connected = resolve as typeof connected;
    });
  const { bot } = await lab.replica('a', { connect });
  await lab.until(() => expect(bot.accounts).toEqual(['main']));
  await vi.waitFor(() => expect(connected.length).toBe(1));

  await bot.stop();

  connected({ end: (reason: unknown) => ends.push(reason) });
  await lab.until(() => expect(ends).toHaveLength(1));
  const again = lab.replica('b');
  expect((await again).bot.accounts).toEqual([]);
});

test('a bot that was stopped, or stopped before it began, does not start', async () => {
  const lab = await Lab.open();
  const { bot } = await lab.replica('a');

  await Promise.all([bot.stop(), bot.stop()]);

  await expect(bot.start()).rejects.toMatchObject({ code: 'stopped' });
});

test('a coordinator in memory is warned of, and a second bot on a coordinator refused', async () => {
  const lab = await Lab.open();
  const { coordinator } = await lab.replica('a');

  expect(lab.log.join('\n')).toContain("WARNING: the coordinator is in this process's memory");
  const options = {
    coordinator,
    store: lab.store,
    accounts: ['x'],
    connect: () => ({}) as never,
    initAuthCreds: () => ({}),
  };
  await expect(baileys({ ...options, onMessage() {} }).start()).rejects.toMatchObject({ code: 'config' });
});

test('options that cannot work are refused by name', () => {
  const good = {
    coordinator: new MemoryCoordinator(),
    store: new MemoryStateStore(),
    accounts: ['main'],
    connect: () => ({}) as never,
    initAuthCreds: () => ({}),
    onMessage() {},
  };
  const refusals: [object, string][] = [
    [{ coordinator: {} }, 'without accept()'],
    [{ store: undefined }, 'no store'],
    [{ accounts: [] }, 'accounts: expected names'],
    [{ accounts: ['a', 'a'] }, 'named twice'],
    [{ connect: 1 }, 'connect is number'],
    [{ balanceMs: -1 }, 'balanceMs'],
    [{ acounts: ['a'] }, "no option 'acounts'"],
  ];

  for (const [wrong, message] of refusals) expect(() => baileys({ ...good, ...wrong })).toThrow(message);
});
