import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { connect, nkeyAuthenticator, nkeys } from '@nats-io/transport-node';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { makeCertificates, NatsServer, TestProxy, tlsConfig, until } from '../testing/lab.js';
import { NatsCoordinator, type NatsCoordinatorOptions, NatsStateStore } from './index.js';

const LEASE_MS = 3000;

let server: NatsServer;
beforeAll(async () => {
  server = await NatsServer.start();
});
afterAll(() => server[Symbol.asyncDispose]());

async function refused(options: NatsCoordinatorOptions): Promise<Error & { code: string }> {
  const coordinator = new NatsCoordinator({ leaseMs: LEASE_MS, namespace: randomUUID(), ...options });
  const beforeMs = performance.now();
  const error: unknown = await coordinator.start().then(
    () => 'it started',
    (reason: unknown) => reason,
  );
  await coordinator.stop();
  expect(error).toBeInstanceOf(Error);
  expect(performance.now() - beforeMs).toBeLessThan(4 * LEASE_MS);
  return error as Error & { code: string };
}

test('an address where nobody listens is told of, without its password', async () => {
  const error = await refused({ url: 'nats://bot:secret@127.0.0.1:1' });

  expect(error).toMatchObject({ code: 'unavailable', message: expect.stringContaining('127.0.0.1:1') as string });
  expect(error.message).not.toContain('secret');
});

test('a server that is silent is given up', async () => {
  await using proxy = await TestProxy.start(server.port);
  proxy.set('cut');

  expect(await refused({ url: proxy.url })).toMatchObject({ code: 'unavailable' });
});

test('connections that were given up before the server spoke are closed', async () => {
  await using proxy = await TestProxy.start(server.port);
  proxy.set('cut-down');
  const url = proxy.url;
  await refused({ url });
  await until('nothing is open', () => proxy.connections === 0);

  proxy.set('open');
  const coordinator = new NatsCoordinator({ url, leaseMs: LEASE_MS, namespace: randomUUID() });
  await coordinator.start();
  proxy.set('cut-down');
  proxy.reset();
  await until('it tries to connect again', () => proxy.connections > 0);
  await coordinator.stop();

  await until('nothing is open', () => proxy.connections === 0);
}, 60_000);

test('a server without JetStream is refused, with what to do', async () => {
  await using plain = await NatsServer.start({ jetstream: '' });

  expect(await refused({ url: plain.url })).toMatchObject({
    code: 'config',
    message: expect.stringContaining('Start nats-server with -js') as string,
  });
});

test('a wrong login is refused by name', async () => {
  await using closed = await NatsServer.start({ config: 'authorization { user: bot, password: right }' });

  const error = await refused({ url: `nats://bot:wrong@127.0.0.1:${closed.port}` });

  expect(error).toMatchObject({ code: 'config', message: expect.stringContaining('refuses the login') as string });
  expect(error.message).not.toContain('wrong');
});

test('a login by NKEY, over TLS, is taken from what connect of the library takes', async () => {
  const user = nkeys.createUser();
  let ca = '';
  await using guarded = await NatsServer.start({
    configIn: (folder) => {
      const certificates = makeCertificates(folder);
      ca = certificates.ca;
      return `authorization { users: [{ nkey: ${user.getPublicKey()} }] }\n${tlsConfig(certificates)}`;
    },
  });
  const url = `tls://127.0.0.1:${guarded.port}`;
  const authenticator = nkeyAuthenticator(user.getSeed());

  expect((await refused({ url, connection: { authenticator } })).message).toMatch(/is not trusted/);
  expect((await refused({ url, connection: { tls: { ca } } })).message).toMatch(/refuses the login/);
  const coordinator = new NatsCoordinator({ url, connection: { authenticator, tls: { ca } }, leaseMs: LEASE_MS });
  await coordinator.start();
  await coordinator.stop();
});

test.each([
  ['max_age', { max_age: 60e9 }],
  ['discard', { discard: 'old' }],
  ['deny_delete', { deny_delete: false }],
  ['storage', { storage: 'memory' }],
])('a stream of the same name with another %s is refused by that name', async (name, changed) => {
  const namespace = randomUUID();
  const client = await connect({ servers: server.url });
  const config = {
    ...{ name: `BOTMESH_${namespace}_0`, subjects: [`botmesh.${namespace}.0.*`], retention: 'limits' },
    ...{ storage: 'file', num_replicas: 1, discard: 'new', deny_delete: true, ...changed },
  };
  await client.request(`$JS.API.STREAM.CREATE.${config.name}`, JSON.stringify(config));
  await client.close();

  expect(await refused({ url: server.url, namespace })).toMatchObject({
    code: 'config-mismatch',
    message: expect.stringMatching(new RegExp(`${name} .*expected`)) as string,
  });
});

test('more copies of a stream than there are servers are refused by JetStream, in its words', async () => {
  expect((await refused({ url: server.url, replicas: 3 })).message).toMatch(/replicas > 1 not supported/);
});

test('a server that has no room says so, refuses whole steps, and goes on when there is room', async () => {
  await using small = await NatsServer.start({ jetstream: 'max_file_store: 300KB' });
  const coordinator = new NatsCoordinator({ url: small.url, leaseMs: LEASE_MS });
  await coordinator.start();
  let said = '';
  coordinator.on('unavailable', ({ error }) => {
    said = error.message;
  });
  const body = 'x'.repeat(50_000);

  const accepted = await Promise.allSettled(
    Array.from({ length: 12 }, (_, n) => coordinator.accept(`chat ${n}`, { id: String(n), body })),
  );

  expect(accepted.some(({ status }) => status === 'rejected')).toBe(true);
  expect(said).toMatch(/no room left for BOTMESH_botmesh_0/);
  await coordinator.stop();
}, 60_000);

test('a connection that was handed in is used, and is not closed', async () => {
  const client = await connect({ servers: server.url });
  const coordinator = new NatsCoordinator({ client, leaseMs: LEASE_MS, namespace: randomUUID() });
  const state = new NatsStateStore({ client, namespace: randomUUID() });
  await coordinator.start();
  await state.save('k', 1, 1);

  await coordinator.stop();
  await state.close();

  expect(client.isClosed()).toBe(false);
  await client.close();
});

/** The user that the README shows. */
function userOfReadme(): string {
  const text = readFileSync(new URL('../README.md', import.meta.url), 'utf8');
  const found = /```text\n(authorization[^`]*)```/.exec(text)?.[1];
  if (found === undefined) throw new Error('The README has no user any more.');
  return found;
}

test('a user with the rights of the README can do all there is, and one that lacks one is told which', async () => {
  await using guarded = await NatsServer.start({ config: userOfReadme() });
  const url = `nats://bot:secret@127.0.0.1:${guarded.port}`;
  const connection = { inboxPrefix: '_INBOX_botmesh' };
  const options = { url, connection, leaseMs: LEASE_MS };
  const refusals: string[] = [];
  const [first, second] = [new NatsCoordinator(options), new NatsCoordinator(options)];
  for (const one of [first, second]) one.on('unavailable', ({ error }) => refusals.push(error.message));
  const state = new NatsStateStore({ url, connection });
  await Promise.all([first.start(), second.start()]);

  const turn = await first.acquireTurn(await first.reserve('chat'));
  const message = await second.accept('chat', { id: '1', body: 'text' });
  await state.save('chat', { n: 1 }, turn.fence);
  const next = second.acquireTurn(message!);
  await turn.release();
  await (await next).release();

  expect(await state.load('chat')).toEqual({ value: { n: 1 }, fence: turn.fence });
  await state.delete('chat');
  expect(refusals).toEqual([]);
  await Promise.all([first.stop(), second.stop(), state.close()]);

  const other = await refused({ url, connection, namespace: 'other' });
  expect(other).toMatchObject({ code: 'config' });
  expect(other.message).toMatch(/may not publish to '\$JS\.API\.STREAM\.INFO\.BOTMESH_other_0'/);
}, 60_000);
