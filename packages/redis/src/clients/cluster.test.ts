import { createHash } from 'node:crypto';
import { type AddressInfo, createServer } from 'node:net';
import { Redis } from 'ioredis';
import { Redis as Redis6 } from 'ioredis6';
import { Redis as Valkey } from 'iovalkey';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { testClients } from '../../testing/clients.js';
import {
  isLong,
  pause,
  SENTINEL_GROUP,
  SentinelSet,
  ServerCluster,
  type TestServer,
  until,
} from '../../testing/lab.js';
import { checkServer } from './check-server.js';
import { slotOf } from './cluster-slot.js';
import type { Connection, ConnectionOptions, Script } from './connection.js';
import type { Library } from './libraries.js';
import { openConnection } from './open-connection.js';

const TIMES = { timeoutMs: 500, connectTimeoutMs: 3000 };
const TAGS = Array.from({ length: 8 }, (_, shard) => `{bot:${shard}}`);

function script(text: string): Script {
  return { text, sha: createHash('sha1').update(text).digest('hex') };
}

const COUNT = script("return redis.call('INCR', KEYS[1])");
const TELL = script("return redis.call('SPUBLISH', ARGV[1], ARGV[2])");

const opened: { close(): Promise<void> }[] = [];
afterEach(async () => {
  for (const one of opened.splice(0)) await one.close();
});

async function connect(options: Partial<ConnectionOptions>, library?: Library): Promise<Connection> {
  const connection = await openConnection({ ...TIMES, ...options }, library);
  opened.push(connection);
  return connection;
}

test('slots are those of the servers', () => {
  expect(slotOf('foo')).toBe(12182);
  expect(slotOf('{user1000}.following')).toBe(slotOf('{user1000}.followers'));
  expect(slotOf('foo{}{bar}')).toBe(8363);
  expect(slotOf('foo{{bar}}zap')).toBe(slotOf('{bar'));
  expect(slotOf('123456789')).toBe(0x31c3);
});

describe('a Cluster', () => {
  let cluster: ServerCluster;
  beforeAll(async () => {
    cluster = await ServerCluster.start();
  }, 60_000);
  afterAll(() => cluster[Symbol.asyncDispose]());

  const url = () => `redis://127.0.0.1:${cluster.ports[0]}`;

  describe.each(testClients)('through $name', ({ library, makeCluster }) => {
    test('scripts and channels of all shards find their node', async () => {
      const connection = await connect({ url: url(), cluster: true }, library);
      const heard: string[] = [];

      for (const tag of TAGS) {
        await connection.subscribe(`${tag}:push`, (message) => heard.push(message));
        await connection.evalsha(COUNT, [`${tag}:n:${opened.length}`], []);
        await connection.evalsha(TELL, [`${tag}:n`], [`${tag}:push`, tag]);
      }

      await until('all are heard', () => heard.length === TAGS.length);
      expect(heard.toSorted()).toEqual(TAGS);
      expect(await checkServer(connection, TAGS)).toMatchObject([{ code: 'forgets' }]);
    });

    test("a user's client is taken as a pattern, and stays", async () => {
      const user = makeCluster(cluster.ports.slice(0, 2));
      opened.push(user);
      await user.ping();

      const connection = await connect({ client: user.client });
      await connection.subscribe('{bot:1}:push', () => {});
      expect(await connection.evalsha(COUNT, ['{bot:1}:own'], [])).toBeGreaterThan(0);
      await connection.close();

      await user.ping();
    });
  });
});

// They change the Cluster, so each has its own: one of each library, or all.
const few = testClients.filter(({ name }) => isLong || name === 'ioredis 5' || name === 'redis 6');
describe.concurrent.each(few)('when a Cluster changes, $name', ({ library }) => {
  test('follows a failover of one shard, and the others never notice', { timeout: 90_000 }, async () => {
    // Else the servers themselves refuse all shards when one is down.
    await using cluster = await ServerCluster.start({ config: ['cluster-require-full-coverage no'] });
    const old = await cluster.ownerOf(slotOf(TAGS[0]!));
    const other = TAGS.find((tag) => !isOf(old, cluster, tag))!;
    const url = `redis://127.0.0.1:${old.port}`;
    const connection = await openConnection({ ...TIMES, url, cluster: true }, library);
    const heard: string[] = [];
    for (const tag of [TAGS[0]!, other]) await connection.subscribe(`${tag}:push`, (message) => heard.push(message));
    let isOver = false;
    const failures: unknown[] = [];
    const steady = (async () => {
      while (!isOver) {
        await connection.evalsha(COUNT, [`${other}:n`], []).catch((error: unknown) => failures.push(error));
        await pause(10);
      }
    })();

    await old.freeze();
    await until('the shard answers again', () => works(connection, TAGS[0]!), 40_000);
    isOver = true;
    await steady;

    expect(failures).toEqual([]);
    // The engine does this when its own pings stay away.
    await connection.subscribe(`${TAGS[0]}:push`, (message) => heard.push(message)).catch(() => {});
    await until(
      'its channel is heard again',
      async () => {
        await connection.evalsha(TELL, [`${TAGS[0]}:n`], [`${TAGS[0]}:push`, 'after']).catch(() => {});
        return heard.includes('after');
      },
      20_000,
    );
    await connection.close();
  });
});

function isOf(server: TestServer, cluster: ServerCluster, tag: string): boolean {
  const at = cluster.servers.indexOf(server);
  return Math.floor((slotOf(tag) * 3) / 16_384) === at;
}

function works(connection: Connection, tag: string): Promise<boolean> {
  return connection.evalsha(COUNT, [`${tag}:n`], []).then(
    () => true,
    () => false,
  );
}

const withSentinels: [string, typeof Redis][] = [
  ['ioredis 5', Redis],
  ['ioredis 6', Redis6 as unknown as typeof Redis],
  ['iovalkey', Valkey as unknown as typeof Redis],
];
describe('behind Sentinels', () => {
  let set: SentinelSet;
  beforeAll(async () => {
    set = await SentinelSet.start();
  }, 60_000);
  afterAll(() => set[Symbol.asyncDispose]());

  test.each(withSentinels)('%s passes by one that is silent', async (name, Client) => {
    const silent = createServer(() => {});
    await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve));
    const { port } = silent.address() as AddressInfo;
    const user = new Client({
      sentinels: [{ host: '127.0.0.1', port }, ...set.sentinels],
      name: SENTINEL_GROUP,
      lazyConnect: true,
    });

    const connection = await connect({ client: user });
    await connection.subscribe('news', () => {});

    expect(await connection.evalsha(COUNT, [name], [])).toBe(1);
    await connection.close();
    silent.close();
  });
});

test.concurrent.each(isLong ? withSentinels : withSentinels.slice(0, 1))(
  'with Sentinels, %s follows a failover',
  { timeout: 90_000 },
  async (_name, Client) => {
    await using set = await SentinelSet.start();
    const old = await set.primary();
    const user = new Client({ sentinels: set.sentinels, name: SENTINEL_GROUP });
    user.on('error', () => {});
    const connection = await openConnection({ ...TIMES, client: user });
    const heard: string[] = [];
    await connection.subscribe('news', (message) => heard.push(message));
    await connection.evalsha(COUNT, ['n'], []);

    await old.freeze();
    await expect(connection.evalsha(COUNT, ['n'], [])).rejects.toMatchObject({ code: 'unavailable' });
    await until('it answers again', () => works(connection, 'a'), 40_000);

    const heir = await set.failedOver(old);
    await connection.subscribe('news', (message) => heard.push(message)).catch(() => {});
    await until('the channel is heard again', async () => {
      await heir.ask('PUBLISH', 'news', 'after');
      return heard.includes('after');
    });
    await connection.close();
    user.disconnect();
  },
);
