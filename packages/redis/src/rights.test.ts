import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { testClients } from '../testing/clients.js';
import { TestServer, until } from '../testing/lab.js';
import { ServerUnfitError } from './clients/unfit.js';
import { RedisCoordinator } from './RedisCoordinator.js';
import { RedisStateStore } from './RedisStateStore.js';
import { paceScript, stepScript, viewScript } from './script/scripts.js';

/** The rule that the README gives, on one line. */
function ruleOfReadme(): string {
  const text = readFileSync(new URL('../README.md', import.meta.url), 'utf8');
  const rule = /```text\n(user bot[^`]*)```/.exec(text)?.[1];
  if (rule === undefined) throw new Error('The README has no rule for a user any more.');
  return rule.replaceAll(/\s+/g, ' ').trim();
}

test.each(testClients)('$name: a user with the rights of the README can do all there is', async ({ make }) => {
  await using server = await TestServer.start({
    persistence: 'aof',
    users: [ruleOfReadme(), 'user default on nopass ~* &* +@all'],
  });
  const user = make(server.port, { username: 'bot', password: 'secret' });
  const options = { client: user.client, leaseMs: 3000 };
  const [first, second] = [new RedisCoordinator(options), new RedisCoordinator(options)];
  const state = new RedisStateStore({ client: user.client, ttlMs: 60_000 });
  await Promise.all([first.start(), second.start()]);

  const turn = await first.acquireTurn(await first.reserve('chat'));
  const message = await second.accept('chat', { id: '1', body: 'text' });
  await state.save('chat', { n: 1 }, turn.fence);
  const next = second.acquireTurn(message!);
  await turn.release();
  await (await next).release();

  expect(await state.load('chat')).toEqual({ value: { n: 1 }, fence: turn.fence });
  await until('it denied nothing', async () => {
    const log = (await server.ask('ACL', 'LOG')) as string[][];
    // Names of connections are a nicety of the libraries, and may be denied.
    const denied = log.map((entry) => entry[entry.indexOf('object') + 1]);
    return denied.every((object) => object?.startsWith('client'));
  });
  await Promise.all([first.stop(), second.stop()]);
  await state.close();
  await user.close();
});

/** What the rule allows by name, and those commands of its categories that the scripts call. */
function commandsOfRule(): string[] {
  const named = [...ruleOfReadme().matchAll(/\+(\w+)(?= |$)/g)].map(([, name]) => name!);
  const scripts = [stepScript('x'), viewScript, paceScript].map(({ text }) => text).join('');
  const called = [...scripts.matchAll(/\bcall(?:Many)?\('([A-Z]+)'/g)].map(([, name]) => name!.toLowerCase());
  return [...new Set([...named, ...called])];
}

/** Without these the coordinator works: it does without, or only a state store or a Cluster needs them. */
const SPARED = [
  'info',
  'ping',
  'unsubscribe',
  'pexpire',
  'persist',
  'select',
  'spublish',
  'ssubscribe',
  'sunsubscribe',
];

test('start() misses each command of the least rights that the coordinator needs, and names it', async () => {
  const commands = commandsOfRule();
  await using server = await TestServer.start({
    users: [
      ...commands.map((name) => `${ruleOfReadme().replace('user bot', `user ${name}`)} -${name}`),
      'user default on nopass ~* &* +@all',
    ],
  });
  // A script that the server knows already needs fewer rights.
  const known = new RedisCoordinator({ url: server.url, replicaId: 'known' });
  await known.start();
  const outcomes: Record<string, unknown> = {};
  for (const name of commands) {
    const coordinator = new RedisCoordinator({ url: server.url.replace('//', `//${name}:secret@`), replicaId: name });
    outcomes[name] = await coordinator.start().then(
      () => 'started',
      (error: ServerUnfitError) => (error.message.toLowerCase().includes(name) ? error.reason : error),
    );
    await coordinator.stop();
  }
  await known.stop();

  expect(commands.length).toBeGreaterThan(30);
  expect(outcomes).toEqual(
    Object.fromEntries(commands.map((name) => [name, SPARED.includes(name) ? 'started' : 'rights'])),
  );
}, 60_000);

test('start() refuses a server that cannot be used at once, and leaves nothing open', async () => {
  await using server = await TestServer.start({
    users: ['user bot on >secret ~* &* +@all', 'user default on nopass ~* &* +@all'],
  });
  const url = server.url.replace('//', '//bot:wrong@');
  const coordinator = new RedisCoordinator({ url });

  const before = performance.now();
  const refused: unknown = await coordinator.start().catch((error: unknown) => error);

  expect(refused).toBeInstanceOf(ServerUnfitError);
  expect(refused).toMatchObject({ code: 'config', reason: 'login' });
  expect(String(refused)).not.toContain('wrong');
  expect(performance.now() - before).toBeLessThan(4000);
  await until('only the test is connected', async () => {
    return (
      String(await server.ask('CLIENT', 'LIST'))
        .trim()
        .split('\n').length === 1
    );
  });
});
