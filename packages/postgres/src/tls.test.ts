import { Pool } from 'pg';
import postgres from 'postgres';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { Authority } from '../testing/certificates.js';
import { urlClients } from '../testing/clients.js';
import { TestProxy, TestServer, urlBy } from '../testing/lab.js';
import type { PostgresClient } from './clients/client.js';
import { type ClientOptions, makeClient } from './clients/make-client.js';

const TIMES = { timeoutMs: 2000, connectTimeoutMs: 4000 };

let authority: Authority;
let stranger: Authority;
let server: TestServer;
/** Its certificate is for another name. */
let misnamed: TestServer;
const opened: { close(): unknown }[] = [];

beforeAll(async () => {
  authority = new Authority();
  stranger = new Authority();
  server = await serverOf('localhost');
  misnamed = await serverOf('elsewhere.example');
  await server.ask('create role tls_only login superuser; create role shows login superuser');
}, 60_000);
afterEach(async () => {
  for (const one of opened.splice(0)) await one.close();
});
afterAll(async () => {
  await server?.[Symbol.asyncDispose]();
  await misnamed?.[Symbol.asyncDispose]();
  authority?.[Symbol.dispose]();
  stranger?.[Symbol.dispose]();
});

async function serverOf(name: string): Promise<TestServer> {
  const { certFile, keyFile } = authority.sign(name);
  return TestServer.start({
    config: [
      'ssl = on',
      `ssl_cert_file = '${certFile}'`,
      `ssl_key_file = '${keyFile}'`,
      `ssl_ca_file = '${authority.certFile}'`,
    ],
    hba: [
      'hostssl all tls_only 127.0.0.1/32 trust',
      'host all tls_only 127.0.0.1/32 reject',
      'hostssl all shows 127.0.0.1/32 cert',
    ],
  });
}

/** By name: that is what a certificate is for. */
function urlOf(login: string, of = server): string {
  return of.url('postgres', login).replace('127.0.0.1', 'localhost');
}

/** What a user of each library would pass. */
const ways = [
  {
    library: urlClients[0]!.library,
    name: 'pg',
    instance(url: string, ssl: object): unknown {
      const pool = new Pool({ connectionString: url, ssl });
      opened.push({ close: () => pool.end() });
      return pool;
    },
  },
  {
    library: urlClients[1]!.library,
    name: 'postgres',
    instance(url: string, ssl: object): unknown {
      const sql = postgres(url, { ssl });
      opened.push({ close: () => sql.end() });
      return sql;
    },
  },
];

describe.each(ways)('$name', (way) => {
  function client(options: Partial<ClientOptions>): PostgresClient {
    const made = makeClient({ ...TIMES, ...options }, way.library);
    opened.push(made);
    return made;
  }

  async function isEncrypted(one: PostgresClient): Promise<string | null> {
    await one.open();
    return one.call('select ssl from pg_catalog.pg_stat_ssl where pid = pg_catalog.pg_backend_pid()', []);
  }

  async function refused(options: Partial<ClientOptions>): Promise<unknown> {
    return client(options)
      .open()
      .catch((error: unknown) => error);
  }

  test('a server whose authority is known is talked to by TLS, and is heard by TLS', async () => {
    const one = client({ client: way.instance(urlOf('tls_only'), { ca: authority.cert }) });
    const heard: string[] = [];

    expect(await isEncrypted(one)).toBe('t');
    await one.listen(
      'news',
      (payload) => heard.push(payload),
      () => {},
    );
    await one.call("select pg_notify('news', 'a')", []);
    await expect.poll(() => heard).toEqual(['a']);
  });

  test('listenUrl is gone to with the TLS of the client', async () => {
    const ssl = { ca: authority.cert };
    const one = client({ client: way.instance(urlOf('tls_only'), ssl), listenUrl: urlOf('tls_only') });
    await one.open();

    await one.listen(
      'news',
      () => {},
      () => {},
    );
  });

  test('a connection by TLS that is cut, reset or ended by the server is replaced', async () => {
    await using proxy = await TestProxy.start(server.port);
    const url = urlBy(proxy).replace('127.0.0.1', 'localhost').replace('postgres@', 'tls_only@');
    const one = client({ client: way.instance(url, { ca: authority.cert }), timeoutMs: 300 });
    await one.open();
    const answers = (): Promise<boolean> =>
      one.call('select 1', []).then(
        () => true,
        () => false,
      );
    await one.listen(
      'news',
      () => {},
      () => {},
    );

    for (let round = 0; round < 3; round++) {
      proxy.reset();
      await expect.poll(answers).toBe(true);
      proxy.set('cut');
      expect(await answers()).toBe(false);
      proxy.reset();
      proxy.set('open');
      await expect.poll(answers).toBe(true);
      await server.ask("select pg_terminate_backend(pid) from pg_stat_activity where usename = 'tls_only'");
      await expect.poll(answers).toBe(true);
    }
    await one.close();
    await expect.poll(() => proxy.connections).toBe(0);
  });

  test('a server whose authority is unknown, or another one, is refused with what to pass', async () => {
    const unknown = await refused({ url: `${urlOf('postgres')}?sslmode=verify-full` });
    const other = await refused({ client: way.instance(urlOf('postgres'), { ca: stranger.cert }) });

    for (const error of [unknown, other]) {
      expect(error).toMatchObject({ code: 'config', reason: 'certificate', message: /ssl: \{ ca \}/ });
    }
  });

  test('a certificate for another name is refused', async () => {
    const error = await refused({ client: way.instance(urlOf('postgres', misnamed), { ca: authority.cert }) });

    expect(error).toMatchObject({ code: 'config', reason: 'certificate', message: /elsewhere\.example/ });
  });

  test('a server that wants TLS says so to who comes without', async () => {
    const error = await refused({ url: urlOf('tls_only') });

    expect(error).toMatchObject({ code: 'config', reason: 'login', message: /sslmode=verify-full/ });
  });

  test('a certificate of the client is shown, and is told of where it lacks', async () => {
    const { cert, key } = authority.sign('shows');
    const one = client({ client: way.instance(urlOf('shows'), { ca: authority.cert, cert, key }) });
    const without = await refused({ client: way.instance(urlOf('shows'), { ca: authority.cert }) });

    expect(await isEncrypted(one)).toBe('t');
    expect(without).toMatchObject({ code: 'config', reason: 'certificate', message: /ssl: \{ ca, cert, key \}/ });
  });
});

test('in the url of pg, sslrootcert names the authority', async () => {
  const url = `${urlOf('tls_only')}?sslmode=verify-full&sslrootcert=${encodeURIComponent(authority.certFile)}`;
  const one = makeClient({ ...TIMES, url }, ways[0]!.library);
  opened.push(one);

  await one.open();
});

test('sslmode=require in the url of postgres encrypts, and asks nobody who the server is', async () => {
  const one = makeClient({ ...TIMES, url: `${urlOf('tls_only', server)}?sslmode=require` }, ways[1]!.library);
  opened.push(one);

  await one.open();
});
