import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { createServer, type Socket } from 'node:net';
import { join } from 'node:path';
import { Client } from 'pg';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { urlClients } from '../testing/clients.js';
import { psql, TestProxy, TestServer, until, urlBy } from '../testing/lab.js';
import type { PostgresClient } from './clients/client.js';
import { type ClientOptions, makeClient } from './clients/make-client.js';
import { migrate, sql } from './index.js';
import { stepsOf } from './schema.js';
import { newestVersion } from './version.js';

const TIMES = { timeoutMs: 2000, connectTimeoutMs: 2000 };

let server: TestServer;
const opened: { close(): Promise<void> }[] = [];

beforeAll(async () => {
  server = await TestServer.start({
    hba: ['host all knows_word 127.0.0.1/32 scram-sha-256', 'host all nobody_at_all 127.0.0.1/32 reject'],
    config: ['max_connections = 40'],
  });
  await server.ask("set password_encryption = 'scram-sha-256'; create role knows_word login password 'right:word'");
  await server.ask('create role bot login; create role lacking login; create role owner login createdb');
});
afterEach(async () => {
  for (const one of opened.splice(0)) await one.close();
  await until('nothing is left open', async () => (await server.connections()) === 0);
});
afterAll(() => server[Symbol.asyncDispose]());

function client(way: (typeof urlClients)[number], options: Partial<ClientOptions>): PostgresClient {
  const made = makeClient({ ...TIMES, ...options }, way.library);
  opened.push(made);
  return made;
}

async function refused(way: (typeof urlClients)[number], options: Partial<ClientOptions>): Promise<Error> {
  const before = performance.now();
  const error: unknown = await client(way, options)
    .open()
    .catch((reason: unknown) => reason);
  expect(performance.now() - before).toBeLessThan(TIMES.connectTimeoutMs + 700);
  expect(error).toBeInstanceOf(Error);
  return error as Error;
}

/** As the operator, in one database. */
async function run(database: string, text: string): Promise<void> {
  const one = new Client({ connectionString: server.url(database) });
  await one.connect();
  try {
    await one.query(text);
  } finally {
    await one.end();
  }
}

let databases = 0;

async function freshDatabase(): Promise<string> {
  return server.database(`fresh_${++databases}`);
}

describe.each(urlClients)('$name', (way) => {
  test('an empty database is set up, once', async () => {
    const url = await freshDatabase();

    await client(way, { url }).open();
    await client(way, { url }).open();

    expect(await migrate({ url })).toEqual({ from: newestVersion('botmesh'), to: newestVersion('botmesh') });
  });

  test('an address where nobody listens is told of at once', async () => {
    const error = await refused(way, { url: 'postgres://postgres@127.0.0.1:1/postgres' });

    expect(error).toMatchObject({ code: 'unavailable' });
    expect(error.message).toMatch(/Could not connect to 127.0.0.1:1\/postgres: .*ECONNREFUSED/);
  });

  test('a host that does not exist is told of', async () => {
    const error = await refused(way, { url: 'postgres://u:secret@no-such-host.invalid/d' });

    expect(error).toMatchObject({ code: 'unavailable', message: expect.stringContaining('no-such-host.invalid') });
    expect(error.message).not.toContain('secret');
  });

  test('a server that is silent is given up after the connect timeout', async () => {
    await using proxy = await TestProxy.start(server.port);
    proxy.set('cut');

    expect(await refused(way, { url: urlBy(proxy), connectTimeoutMs: 500 })).toMatchObject({ code: 'unavailable' });

    proxy.set('open');
    await until('nothing is open', () => proxy.connections === 0);
  });

  test('one that hangs up at once is told of, and not called all the time', async () => {
    let calls = 0;
    const rude = createServer((socket: Socket) => {
      calls += 1;
      socket.destroy();
    });
    await new Promise<void>((resolve) => rude.listen(0, '127.0.0.1', resolve));
    const { port } = rude.address() as { port: number };

    expect(await refused(way, { url: `postgres://u@127.0.0.1:${port}/d` })).toMatchObject({ code: 'unavailable' });

    rude.close();
    expect(calls).toBeLessThanOrEqual(2);
  });

  test('a refused login, and a missing one, say so without the password', async () => {
    const wrong = await refused(way, { url: server.url('postgres', 'knows_word:hunter2') });
    const none = await refused(way, { url: server.url('postgres', 'knows_word') });
    const rejected = await refused(way, { url: server.url('postgres', 'nobody_at_all') });

    for (const error of [wrong, none, rejected]) expect(error).toMatchObject({ code: 'config', reason: 'login' });
    expect(`${wrong.stack} ${JSON.stringify(wrong)} ${String(wrong.cause)}`).not.toContain('hunter2');
  });

  test('a right login is taken, odd characters and all', async () => {
    await freshDatabase();
    const url = server.url(`fresh_${databases}`, 'knows_word:right%3Aword');
    await migrate({ url: server.url(`fresh_${databases}`), role: 'knows_word' });

    await client(way, { url }).open();
  });

  test('a database that is not there is told of', async () => {
    const error = await refused(way, { url: server.url('nowhere') });

    expect(error).toMatchObject({ code: 'config', reason: 'database', message: expect.stringContaining('nowhere') });
  });

  test('TLS that the server does not speak is told of', async () => {
    const error = await refused(way, { url: `${server.url()}?sslmode=require` });

    expect(error).toMatchObject({ code: 'config', reason: 'certificate' });
  });

  test('missing tables are made or, without the right or the wish, told of with what to do', async () => {
    await freshDatabase();
    const url = server.url(`fresh_${databases}`, 'bot');

    const unable = await refused(way, { url });
    const unwilling = await refused(way, { url: server.url(`fresh_${databases}`), migrate: false });

    for (const error of [unable, unwilling]) {
      expect(error).toMatchObject({
        code: 'config',
        reason: 'schema',
        message: expect.stringMatching(/migrate\(\).*sql\(\)/),
      });
    }
  });

  test('a newer schema is refused, and an older one where it may not be brought up', async () => {
    const url = await freshDatabase();
    await migrate({ url });
    const direct = client(way, { url });
    await direct.open();
    await direct.call('insert into botmesh.migrations values (1000)', []);

    expect(await refused(way, { url })).toMatchObject({ code: 'config', reason: 'newer', message: /1000/ });
    await expect(migrate({ url })).rejects.toMatchObject({ reason: 'newer' });

    await direct.call(
      'delete from botmesh.migrations where version = (select max(version) from botmesh.migrations)',
      [],
    );
    await direct.call('delete from botmesh.migrations', []);
    expect(await refused(way, { url, migrate: false })).toMatchObject({ code: 'config', reason: 'schema' });
  });

  test('a role without a right at run time is told which', async () => {
    await freshDatabase();
    const url = server.url(`fresh_${databases}`);
    await migrate({ url });
    const direct = client(way, { url });
    await direct.open();
    await direct.call('grant usage on schema botmesh to lacking', []);
    await direct.call('grant select on botmesh.migrations to lacking', []);

    const error = await refused(way, { url: server.url(`fresh_${databases}`, 'lacking') });

    expect(error).toMatchObject({ code: 'config', reason: 'rights', message: expect.stringMatching(/state.*role/) });
  });

  test('row security, under which rows seem not to be there, is told of', async () => {
    await freshDatabase();
    const name = `fresh_${databases}`;
    await migrate({ url: server.url(name), role: 'bot' });
    await run(name, 'alter table botmesh.chat enable row level security');

    const error = await refused(way, { url: server.url(name, 'bot') });

    expect(error).toMatchObject({ code: 'config', reason: 'rights', message: /row security on chat/ });
    await client(way, { url: server.url(name) }).open();
  });

  test('tables and functions that somebody removed are named', async () => {
    const url = await freshDatabase();
    await migrate({ url });
    await run(`fresh_${databases}`, 'drop table botmesh.done; drop function botmesh.step_beat');

    const error = await refused(way, { url });

    expect(error).toMatchObject({ code: 'config', reason: 'schema', message: /no longer: done, step_beat\(\)/ });
  });

  test('a database that has no place for most characters is refused', async () => {
    const name = `latin_${way.library.name}`;
    await server.ask(`create database ${name} encoding 'LATIN1' template template0 lc_collate 'C' lc_ctype 'C'`);

    const error = await refused(way, { url: server.url(name) });

    expect(error).toMatchObject({ code: 'config', reason: 'setting', message: /LATIN1.*UTF8/ });
  });

  test('a role for which no triggers run is refused', async () => {
    const url = await freshDatabase();
    await server.ask(`alter role postgres in database fresh_${databases} set session_replication_role = 'replica'`);

    expect(await refused(way, { url })).toMatchObject({ reason: 'setting', message: /session_replication_role/ });
  });

  test('a statement_timeout that nothing can meet is told of', async () => {
    const url = await freshDatabase();
    await migrate({ url });
    await server.ask(`alter role postgres in database fresh_${databases} set statement_timeout = 1`);

    const slow = client(way, { url });
    const error: unknown = await slow
      .open()
      .then(() => slow.call('select pg_catalog.pg_sleep(1)', []))
      .catch((reason: unknown) => reason);

    expect(error).toMatchObject({ code: 'unavailable', message: /57014.*took too long/ });
  });

  test('functions of others that come first in the search_path are not called', async () => {
    const url = await freshDatabase();
    const names = ['hashtext(text)', 'to_regclass(text)', 'current_setting(text)', 'clock_timestamp()'];
    const fail = "language plpgsql as $$ begin raise exception 'called'; end $$";
    await run(
      `fresh_${databases}`,
      `create schema evil; ${names.map((one) => `create function evil.${one} returns text ${fail};`).join(' ')}
      create function evil.pg_notify(text, text) returns void ${fail}`,
    );
    const odd = client(way, { url: `${url}?options=${encodeURIComponent('-c search_path=evil,pg_catalog')}` });

    await odd.open();
    await odd.listen(
      'news',
      () => {},
      () => {},
    );
  });

  test('a wrong search_path, and any other, makes no difference', async () => {
    const url = await freshDatabase();
    await client(way, { url }).open();
    const odd = client(way, { url: `${url}?options=-c%20search_path%3Dnowhere` });

    await odd.open();

    expect(await odd.call('select count(*) from botmesh.state', [])).toBe('0');
  });

  test('default_transaction_read_only is told of', async () => {
    await freshDatabase();
    await server.ask(`alter database fresh_${databases} set default_transaction_read_only = on`);

    const error = await refused(way, { url: server.url(`fresh_${databases}`) });

    expect(error).toMatchObject({ code: 'config', reason: 'standby', message: /default_transaction_read_only/ });
  });

  test('too few connections are told of', async () => {
    await freshDatabase();
    await server.ask(`alter database fresh_${databases} connection limit 0`);

    const error = await refused(way, { url: server.url(`fresh_${databases}`, 'bot') });

    expect(error).toMatchObject({ code: 'unavailable', message: expect.stringMatching(/53300.*max_connections/) });
  });

  test('one connection is enough', async () => {
    await freshDatabase();
    const name = `fresh_${databases}`;
    await migrate({ url: server.url(name), role: 'bot' });
    await until('its connection has ended', async () => (await server.connections()) === 0);
    await server.ask(`alter database ${name} connection limit 1`);
    const one = client(way, { url: server.url(name, 'bot') });

    await one.open();
    const answers = await Promise.all(Array.from({ length: 20 }, (_, n) => one.call('select $1::int', [`${n}`])));

    expect(answers.length).toBe(20);
  });

  test('ten replicas that start at once set the schema up once', async () => {
    const url = await freshDatabase();
    const replicas = Array.from({ length: 10 }, () =>
      client(way, { url, timeoutMs: 10_000, connectTimeoutMs: 10_000 }),
    );

    await Promise.all(replicas.map((replica) => replica.open()));

    expect(await replicas[0]!.call('select count(*) from botmesh.migrations', [])).toBe(
      String(stepsOf('botmesh').length),
    );
  });
});

test('a standby is told of', async () => {
  await using standby = await server.standby();

  for (const way of urlClients) {
    expect(await refused(way, { url: standby.url() })).toMatchObject({ code: 'config', reason: 'standby' });
  }
});

test('a schema of any name is set up, beside others', async () => {
  const url = await freshDatabase();
  const schema = `My "own" schema; 'x'`;

  expect(await migrate({ url, schema })).toEqual({ from: 0, to: newestVersion(schema) });
  expect(await migrate({ url })).toEqual({ from: 0, to: newestVersion('botmesh') });

  await client(urlClients[0]!, { url, schema, migrate: false }).open();
});

test('what sql() prints sets up all there is for psql, twice the same, and lets the role start', async () => {
  await freshDatabase();
  const name = `fresh_${databases}`;
  const script = join(server.folder, 'script.sql');
  const { writeFileSync } = await import('node:fs');
  writeFileSync(script, sql({ role: 'bot' }));
  const args = [server.url(name), '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-f', script];

  execFileSync(psql(), args, { stdio: 'pipe' });
  execFileSync(psql(), args, { stdio: 'pipe' });

  expect(readFileSync(script, 'utf8')).not.toContain('undefined');
  await client(urlClients[0]!, { url: server.url(name, 'bot'), migrate: false }).open();
});

test.each([
  [{}, /neither url nor client/],
  [{ url: 'postgres://a/b', client: {} }, /both url and client/],
  [{ url: 'mysql://a/b' }, /scheme 'mysql:/],
  [{ url: 'not a url: secret' }, /string of 17 characters/],
  [{ url: 'postgres://u:%@a/b' }, /encodeURIComponent/],
  [{ url: 7 }, /url is number/],
  [{ client: 7 }, /client is number/],
  [{ client: null }, /client is null/],
  [{ client: {} }, /object that is no client/],
  [{ client: new Map() }, /a Map/],
  [{ client: () => {} }, /function/],
  [{ url: 'postgres://a/b', schema: '' }, /schema: expected/],
  [{ url: 'postgres://a/b', schema: 'a$b' }, /schema: expected/],
  [{ url: 'postgres://a/b', schema: 'pg_own' }, /schema: expected/],
  [{ url: 'postgres://a/b', schema: 'x'.repeat(64) }, /schema: expected/],
  [{ url: 'postgres://a/b', wakeUp: 'never' }, /wakeUp is 'never'/],
  [{ url: 'postgres://a/b', wakeUp: 'poll', listenUrl: 'postgres://a/b' }, /listenUrl is given/],
  [{ url: 'postgres://a/b', listenUrl: 'http://a' }, /listenUrl has the scheme/],
  [{ url: 'postgres://a/b', migrate: 'no' }, /migrate is string/],
])('options %j are refused by name', (options, message) => {
  expect(() => makeClient({ ...TIMES, ...options } as ClientOptions)).toThrow(message);
  expect(() => makeClient({ ...TIMES, ...options } as ClientOptions)).toThrow(
    expect.objectContaining({ code: 'config' }),
  );
});
