import { createHash, randomUUID } from 'node:crypto';
import { credsAuthenticator, nkeys } from '@nats-io/transport-node';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { NatsServer } from '../testing/lab.js';
import { NatsCoordinator, type NatsCoordinatorOptions, NatsStateStore } from './index.js';

const LEASE_MS = 1500;
/** What a hosted account allows: streams on disk only, each with a limit. */
const MAX_BYTES = 16 * 1024 * 1024;

type Key = ReturnType<typeof nkeys.createUser>;
type Claims = Readonly<Record<string, unknown>>;

const [operator, system, account, stranger] = [
  nkeys.createOperator(),
  nkeys.createAccount(),
  nkeys.createAccount(),
  nkeys.createAccount(),
];

let server: NatsServer;
beforeAll(async () => {
  server = await NatsServer.start({ config: operatorMode() });
});
afterAll(() => server[Symbol.asyncDispose]());

/** What one key says of another, signed. */
function jwt(by: Key, about: Key, nats: Claims, more: Claims = {}): string {
  const claims = {
    ...{ iat: Math.floor(Date.now() / 1000) - 60, iss: by.getPublicKey(), sub: about.getPublicKey() },
    ...{ name: about.getPublicKey(), nats: { version: 2, ...nats }, ...more },
  };
  const jti = createHash('sha256').update(JSON.stringify(claims)).digest('hex');
  const parts = [
    { typ: 'JWT', alg: 'ed25519-nkey' },
    { jti, ...claims },
  ];
  const said = parts.map((part) => Buffer.from(JSON.stringify(part)).toString('base64url')).join('.');
  return `${said}.${Buffer.from(by.sign(Buffer.from(said))).toString('base64url')}`;
}

/** A server that knows nobody but by what its operator signed. */
function operatorMode(): string {
  const connections = {
    subs: -1,
    data: -1,
    payload: -1,
    imports: -1,
    exports: -1,
    wildcards: true,
    conn: -1,
    leaf: -1,
  };
  const room = { disk_storage: 4 * MAX_BYTES, mem_storage: 0, streams: 8, consumer: 64, max_bytes_required: true };
  const ofAccount = (key: Key, limits: Claims) => jwt(operator, key, { type: 'account', limits });
  return [
    `operator: ${jwt(operator, operator, { type: 'operator', system_account: system.getPublicKey() })}`,
    `system_account: ${system.getPublicKey()}`,
    'resolver: MEMORY',
    'resolver_preload: {',
    `  ${system.getPublicKey()}: ${ofAccount(system, connections)}`,
    `  ${account.getPublicKey()}: ${ofAccount(account, { ...connections, ...room })}`,
    '}',
  ].join('\n');
}

interface UserOptions {
  readonly by?: Key;
  readonly seedOf?: Key;
  readonly rights?: Claims;
  readonly exp?: number;
}

/** The text of a .creds file. */
function creds({ by = account, exp, rights = {}, seedOf }: UserOptions = {}): Uint8Array {
  const user = nkeys.createUser();
  const nats = { type: 'user', subs: -1, data: -1, payload: -1, ...rights };
  const text = [
    '-----BEGIN NATS USER JWT-----',
    jwt(by, user, nats, exp === undefined ? {} : { exp }),
    '------END NATS USER JWT------',
    '',
    '-----BEGIN USER NKEY SEED-----',
    new TextDecoder().decode((seedOf ?? user).getSeed()),
    '------END USER NKEY SEED------',
    '',
  ];
  return new TextEncoder().encode(text.join('\n'));
}

function options(text: Uint8Array | (() => Uint8Array)): NatsCoordinatorOptions {
  return {
    ...{ url: server.url, maxBytes: MAX_BYTES, leaseMs: LEASE_MS, namespace: randomUUID() },
    connection: { authenticator: credsAuthenticator(text as Uint8Array), inboxPrefix: '_INBOX_botmesh' },
  };
}

test('two replicas with JWT credentials of an account without memory storage hand a chat over and keep its state', async () => {
  const given = options(creds());
  const [first, second] = [new NatsCoordinator(given), new NatsCoordinator(given)];
  const { leaseMs: _, ...place } = given;
  const state = new NatsStateStore(place);
  await Promise.all([first.start(), second.start()]);

  const turn = await first.acquireTurn(await first.reserve('chat'));
  const next = second.acquireTurn((await second.accept('chat', { id: '1', body: 'text' }))!);
  await state.save('chat', { n: 1 }, turn.fence);
  await turn.release();
  const after = await next;

  expect(after.fence).toBeGreaterThan(turn.fence);
  expect(await state.load('chat')).toEqual({ value: { n: 1 }, fence: turn.fence });
  await after.release();
  await Promise.all([first.stop(), second.stop(), state.close()]);
});

test.each<[string, UserOptions]>([
  ['of an account that the server does not know', { by: stranger }],
  ['that have expired', { exp: Math.floor(Date.now() / 1000) - 5 }],
  ['with the seed of another user', { seedOf: nkeys.createUser() }],
])('credentials %s are refused as a login, at start()', async (_name, user) => {
  const coordinator = new NatsCoordinator(options(creds(user)));

  await expect(coordinator.start()).rejects.toMatchObject({
    code: 'config',
    message: expect.stringMatching(/refuses the login.*credentials/) as string,
  });
  await coordinator.stop();
});

test('what is no text of credentials is told of as that, at start()', async () => {
  const coordinator = new NatsCoordinator(options(new TextEncoder().encode('no credentials')));

  await expect(coordinator.start()).rejects.toMatchObject({
    code: 'config',
    message: expect.stringMatching(/connection\.authenticator: .*\.creds file/) as string,
  });
  await coordinator.stop();
});

test('a right that the JWT of the user does not give is told of by its subject', async () => {
  const coordinator = new NatsCoordinator(options(creds({ rights: { pub: { deny: ['$JS.API.STREAM.INFO.>'] } } })));

  await expect(coordinator.start()).rejects.toMatchObject({
    code: 'config',
    message: expect.stringMatching(/may not publish to '\$JS\.API\.STREAM\.INFO/) as string,
  });
  await coordinator.stop();
});

test('credentials that expire under a running replica are replaced by those that the function gives next', async () => {
  let asked = 0;
  const isOver = Math.floor(Date.now() / 1000) + 3;
  const short = creds({ exp: isOver });
  const long = creds();
  const coordinator = new NatsCoordinator(
    options(() => {
      asked += 1;
      return Date.now() / 1000 < isOver - 1 ? short : long;
    }),
  );
  await coordinator.start();
  const turn = await coordinator.acquireTurn(await coordinator.reserve('chat'));
  const before = asked;

  await expect.poll(() => asked, { timeout: 10_000 }).toBeGreaterThan(before);

  await turn.release();
  await (await coordinator.acquireTurn(await coordinator.reserve('chat'))).release();
  await coordinator.stop();
});
