import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, expect, test, vi } from 'vitest';
import type { Bot } from '../bot/Bot.js';
import { MemoryCoordinator } from '../coordination/MemoryCoordinator.js';
import type { Coordinator } from '../coordination/types.js';
import { MemoryStateStore } from '../state/MemoryStateStore.js';
import { FakeProvider } from '../testing/FakeProvider.js';
import { MemoryMesh } from '../testing/MemoryMesh.js';
import { bind, messageOf } from './bind.js';
import { FencedSessions } from './FencedSessions.js';
import { inHand } from './hand.js';
import { checkPeer, versionOf } from './peer-version.js';
import { holding, orderOf } from './take-keys.js';

const closing: (() => Promise<void>)[] = [];

afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

type Update = { readonly n: number; readonly keys: readonly string[]; readonly account?: string };

async function replica(
  handle: (update: Update) => unknown,
  options: { coordinator?: Coordinator; log?: string[] } = {},
) {
  const provider = new FakeProvider();
  const log = options.log ?? [];
  const coordinator = options.coordinator ?? new MemoryCoordinator({ maxAttempts: 2 });
  const bot: Bot = bind({
    framework: 'test',
    bot: {},
    options: { coordinator, retryDelayMs: 0, log: (line) => log.push(line) },
    provider,
    account: () => 'me',
    handle: (update) => handle(update as Update),
  });
  await bot.start();
  closing.push(() => bot.stop());
  const take = ({ n, keys, account = 'me' }: Update) =>
    provider.receive(messageOf({ account, id: `${n}`, keys, update: { n, keys } }));
  return { bot, take, log };
}

async function member(mesh: MemoryMesh): Promise<MemoryCoordinator> {
  const coordinator = new MemoryCoordinator({ mesh });
  await coordinator.start();
  closing.push(() => coordinator.stop());
  return coordinator;
}

test('updates of one key run in order, one at a time, and a delivery made twice runs once', async () => {
  const seen: string[] = [];
  const { take } = await replica(async ({ n }) => {
    seen.push(`${n} begins`);
    await new Promise((resolve) => setImmediate(resolve));
    seen.push(`${n} ends`);
  });

  await Promise.all([1, 2, 3].map((n) => take({ n, keys: ['k'] })));
  expect(await take({ n: 2, keys: ['k'] })).toBe('duplicate');

  await vi.waitFor(() => expect(seen).toHaveLength(6));
  expect(seen).toEqual(['1 begins', '1 ends', '2 begins', '2 ends', '3 begins', '3 ends']);
});

test('updates that cross in two keys wait for each other in no circle, and never run at once', async () => {
  const mesh = new MemoryMesh();
  let running = 0;
  let most = 0;
  const done: number[] = [];
  const handle = async ({ n }: Update): Promise<void> => {
    running += 1;
    most = Math.max(most, running);
    await new Promise((resolve) => setImmediate(resolve));
    running -= 1;
    done.push(n);
  };
  const replicas = [
    await replica(handle, { coordinator: new MemoryCoordinator({ mesh }) }),
    await replica(handle, { coordinator: new MemoryCoordinator({ mesh }) }),
  ];

  const keys = [['a', 'shared'], ['shared'], ['shared', 'z'], ['0', 'shared']];
  await Promise.all(
    Array.from({ length: 40 }, (_, n) => replicas[n % 2]!.take({ n, keys: orderOf(keys[n % 4], 'test') })),
  );

  await vi.waitFor(() => expect(done).toHaveLength(40));
  expect(most).toBe(1);
});

test('an update of another account is refused by name, tried no more than it may be, and kept', async () => {
  const log: string[] = [];
  const { take, bot } = await replica(() => {}, { log });

  await take({ n: 1, keys: ['k'], account: 'other' });

  await vi.waitFor(async () => expect(await bot.parked()).toHaveLength(1));
  expect(log.join('\n')).toContain('this update is of the account other, and this replica runs me');
});

test('where the coordinator keeps no messages, an update is taken in when it is handled, and not before', async () => {
  const whole = new MemoryCoordinator();
  const plain: Coordinator = {
    replicaId: whole.replicaId,
    start: () => whole.start(),
    stop: () => whole.stop(),
    reserve: (key) => whole.reserve(key),
    acquireTurn: (ticket, options) => whole.acquireTurn(ticket, options),
    lead: (name, options) => whole.lead(name, options),
    tryLead: (name) => whole.tryLead(name),
    on: (event, listener) => whole.on(event, listener),
  };
  let finish = (): void => {};
  const { take } = await replica(() => new Promise<void>((resolve) => (finish = resolve)), { coordinator: plain });
  let isTaken = false;

  const taking = take({ n: 1, keys: ['k'] }).then(() => (isTaken = true));
  await new Promise((resolve) => setTimeout(resolve, 20));
  expect(isTaken).toBe(false);
  finish();

  await taking;
});

test('a bot is bound once, and not without a coordinator', () => {
  const bot = {};
  const make = (options: object): Bot =>
    bind({
      framework: 'test',
      bot,
      options: options as { coordinator: Coordinator },
      provider: new FakeProvider(),
      account: () => 'me',
      handle() {},
    });

  expect(() => make({})).toThrowError(
    expect.objectContaining({ code: 'config', message: expect.stringContaining('no coordinator') }),
  );
  make({ coordinator: new MemoryCoordinator() });
  expect(() => make({ coordinator: new MemoryCoordinator() })).toThrow(/is bound already/);
});

test('what a failed or ended update left running may not send after a failure, and may after a good end', async () => {
  const coordinator = await member(new MemoryMesh());
  const later: (() => void)[] = [];
  const keep = (): void => {
    const hand = inHand()!;
    later.push(() => hand.assertHeld());
  };

  await holding(coordinator, ['k'], keep);
  const failing = holding(coordinator, ['k'], () => {
    keep();
    throw new Error('planted');
  });

  await expect(failing).rejects.toThrow('planted');
  expect(later[0]).not.toThrow();
  expect(later[1]).toThrow('planted');
});

test('a key that comes before a held one is refused instead of waited for', async () => {
  const coordinator = await member(new MemoryMesh());

  const inner = holding(coordinator, ['b'], () => holding(coordinator, ['a'], () => 'never'));

  await expect(inner).rejects.toMatchObject({ code: 'bad-input', message: expect.stringContaining("'keys'") });
  await expect(holding(coordinator, ['a'], () => 'free')).resolves.toBe('free');
});

test('keys are texts', () => {
  expect(orderOf(['b', 'a', 'b'], 'keys')).toEqual(['a', 'b']);
  expect(orderOf(undefined, 'keys')).toEqual([]);
  expect(() => orderOf(5 as never, 'keys')).toThrow(/found number/);
  expect(() => orderOf('', 'keys')).toThrow(/an empty one/);
});

test('a session is written under the fence of its turn: a replica that was passed over writes nothing', async () => {
  const mesh = new MemoryMesh();
  const [a, b] = [await member(mesh), await member(mesh)];
  const sessions = new FencedSessions(new MemoryStateStore(), 'test');
  const order: string[] = [];

  const late = holding(a, ['k'], async () => {
    a.crash();
    await holding(b, ['k'], () => sessions.write('k', { by: 'b' }));
    order.push('b wrote');
    await sessions.write('k', { by: 'a' });
  });

  await expect(late).rejects.toMatchObject({ code: 'lease-lost' });
  expect(order).toEqual(['b wrote']);
  expect(await sessions.read('k')).toEqual({ by: 'b' });
});

test('a session outside of a turn, under two keys, or of what JSON cannot hold is refused', async () => {
  const coordinator = await member(new MemoryMesh());
  const sessions = new FencedSessions(new MemoryStateStore(), 'test');

  await expect(sessions.write('s', 1)).rejects.toThrow(/outside of a turn/);
  await holding(coordinator, ['a'], () => sessions.write('s', 1));
  await expect(holding(coordinator, ['b'], () => sessions.write('s', 2))).rejects.toThrow(/another key/);
  await expect(holding(coordinator, ['b', 's'], () => sessions.write('t', { at: new Date(0) }))).rejects.toMatchObject({
    code: 'bad-input',
    message: expect.stringContaining('a Date'),
  });
  await holding(coordinator, ['a'], () => sessions.delete('s'));
  expect(await sessions.read('s')).toBeUndefined();
});

test('a version outside the range is refused by name, one inside is not, nor one that cannot be told', () => {
  const range = { from: [4, 16] as const, lastMajor: 5 };
  const folder = mkdtempSync(join(tmpdir(), 'botmesh-peer-'));
  closing.push(async () => rmSync(folder, { recursive: true }));
  mkdirSync(join(folder, 'node_modules/frame/lib'), { recursive: true });
  writeFileSync(
    join(folder, 'node_modules/frame/package.json'),
    '{ "name": "frame", "version": "3.9.0", "main": "lib/i.js" }',
  );
  writeFileSync(join(folder, 'node_modules/frame/lib/i.js'), '');

  const found = versionOf('frame', join(folder, 'program.js'));

  expect(found).toBe('3.9.0');
  expect(() => checkPeer('frame', found, range)).toThrow(/frame 3\.9\.0 is installed; .* 4\.16 and later/);
  expect(() => checkPeer('frame', '4.15.9', range)).toThrow(/4\.15\.9/);
  expect(() => checkPeer('frame', '6.0.0', range)).toThrow(/below 6\.0/);
  for (const good of ['4.16.0', '4.99.1', '5.1.0', undefined]) checkPeer('frame', good, range);
  expect(versionOf('frame', join(tmpdir(), 'nowhere.js'))).toBeUndefined();
});
