// For the tests of this package: stores on a server whose time is told instead of asked. Only the function now_us of a
// schema of their own is another than the one that is shipped.
import { randomUUID } from 'node:crypto';
import type { StoreLab } from '@botmesh/core/testing';
import type { PostgresClient } from '../src/clients/client.js';
import type { Library } from '../src/clients/libraries.js';
import { type ClientOptions, makeClient } from '../src/clients/make-client.js';
import { PostgresStore } from '../src/PostgresStore.js';
import { quoted } from '../src/quoting.js';
import { SharedClient } from '../src/SharedClient.js';
import { TestServer } from './lab.js';

/** When virtual time begins: whenever will do. */
export const START_MS = 1_750_000_000_000;

/** The server of one test file: that of BOTMESH_POSTGRES_URL, or one of its own. */
export async function openServer(): Promise<{ readonly url: string; close(): Promise<void> }> {
  const given = process.env.BOTMESH_POSTGRES_URL;
  if (given !== undefined) return { url: given, close: async () => {} };
  const server = await TestServer.start({ config: ['max_connections = 300'] });
  return { url: server.url(), close: () => server[Symbol.asyncDispose]() };
}

/** The tables that hold what a mesh knows, but for the row of the mesh itself. */
const TABLES = ['replica', 'note', 'chat', 'entry', 'done', 'parked', 'pace', 'long_key'] as const;

/** A schema of one's own, in which time is told. Dropped when it is disposed of. */
export class ToldSchema implements AsyncDisposable {
  readonly name: string;
  readonly client: PostgresClient;
  #marks = 0;
  readonly #awaited = new Map<string, () => void>();
  readonly #channel = `mark_${randomUUID()}`;
  #marking: Promise<unknown> | undefined;

  private constructor(name: string, client: PostgresClient) {
    this.name = name;
    this.client = client;
  }

  static async open(
    url: string,
    {
      few,
      library,
      ...options
    }: Pick<ClientOptions, 'wakeUp' | 'listenUrl'> & { few?: number; library?: Library } = {},
  ): Promise<ToldSchema> {
    const name = `told_${randomUUID().slice(0, 8)}`;
    const times = { timeoutMs: 10_000, connectTimeoutMs: 10_000 };
    const client = makeClient({ url, schema: name, ...times, ...options }, library);
    await client.open();
    await client.call(
      `create or replace function ${quoted(name)}.now_us() returns bigint language sql volatile as
        'select (pg_catalog.current_setting(''botmesh.now_ms'')::double precision * 1000)::bigint'`,
      [],
    );
    if (few !== undefined) {
      await client.call(
        `create or replace function ${quoted(name)}.few() returns integer language sql immutable as 'select ${few}'`,
        [],
      );
    }
    return new ToldSchema(name, client);
  }

  /** The client, with time standing still where it was told; nobody else closes it. `during` sees every call. */
  at(nowMs: () => number, during: <T>(call: Promise<T>) => Promise<T> = (call) => call): SharedClient {
    const { client } = this;
    const beginning = `select ${quoted(this.name)}.`;
    return new SharedClient({
      where: client.where,
      wakeUp: client.wakeUp,
      open: async () => {},
      close: async () => {},
      listen: (...args) => client.listen(...args),
      call: (text, values) => {
        const told = ` from (select pg_catalog.set_config('botmesh.now_ms', '${nowMs()}', true) offset 0) told`;
        return during(client.call(text.startsWith(beginning) ? text + told : text, values));
      },
    });
  }

  /** A mesh that knows its server from the beginning, as the reference does: nothing has to be waited out. */
  async bear(namespace: string, shard: number): Promise<void> {
    const place = [namespace, String(shard)];
    await this.client.call(
      `insert into ${quoted(this.name)}.mesh (namespace, shard, run) values ($1, $2, ${quoted(this.name)}.run())`,
      place,
    );
  }

  /** The server is another from now on, as after a crash. */
  async restart(): Promise<void> {
    await this.client.call(`delete from ${quoted(this.name)}.server`, []);
  }

  async wipe(namespace: string): Promise<void> {
    const schema = quoted(this.name);
    for (const table of TABLES) {
      await this.client.call(
        `delete from ${schema}.${table} where mesh in (select id from ${schema}.mesh where namespace = $1)`,
        [namespace],
      );
    }
    await this.client.call(`delete from ${schema}.mesh where namespace = $1`, [namespace]);
  }

  /** Keeps a copy of a mesh. The returned function puts it back. */
  async copy(namespace: string): Promise<() => Promise<void>> {
    const schema = quoted(this.name);
    const run = (text: string, values: string[]): Promise<string | null> => this.client.call(text, values);
    const kept = new Map<string, string>();
    const row = await run(`select coalesce(json_agg(m), '[]') from ${schema}.mesh m where namespace = $1`, [namespace]);
    for (const table of TABLES) {
      const rows = await run(
        `select coalesce(json_agg(t), '[]') from ${schema}.${table} t where mesh in (select id from ${schema}.mesh where namespace = $1)`,
        [namespace],
      );
      kept.set(table, rows ?? '[]');
    }
    return async () => {
      await this.wipe(namespace);
      await run(
        `insert into ${schema}.mesh overriding system value select * from json_populate_recordset(null::${schema}.mesh, $1)`,
        [row!],
      );
      for (const [table, rows] of kept) {
        await run(
          `insert into ${schema}.${table} select * from json_populate_recordset(null::${schema}.${table}, $1)`,
          [rows],
        );
      }
    };
  }

  /** When all notifications that were sent so far were heard; at once where nobody listens. */
  async heard(): Promise<void> {
    if (this.client.wakeUp === 'poll') return;
    this.#marking ??= this.client.listen(
      this.#channel,
      (mark) => {
        this.#awaited.get(mark)?.();
        this.#awaited.delete(mark);
      },
      () => {},
    );
    await this.#marking;
    const mark = String(++this.#marks);
    const heard = new Promise<void>((resolve) => this.#awaited.set(mark, resolve));
    const say = (): Promise<unknown> => this.client.call('select pg_notify($1, $2)', [this.#channel, mark]);
    // Who hears nothing has the connection made anew: what is sent meanwhile is lost.
    const again = setInterval(() => void say().catch(() => {}), 50);
    await say();
    await heard.finally(() => clearInterval(again));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.client.call(`drop schema ${quoted(this.name)} cascade`, []);
    await this.client.close();
  }
}

/** An empty store in virtual time. */
export function toldLab(schema: ToldSchema): () => Promise<StoreLab> {
  return async () => {
    const namespace = randomUUID();
    let nowMs = START_MS;
    await schema.bear(namespace, 0);
    const store = new PostgresStore({
      client: schema.at(() => nowMs),
      schema: schema.name,
      namespace,
      shard: 0,
      synchronousCommit: false,
      lockMs: 5_000,
      pollMs: 250,
    });
    const subscriptions: (() => Promise<void>)[] = [];
    const subscribing: PostgresStore['subscribe'] = async (instance, listener) => {
      const off = await store.subscribe(instance, listener);
      subscriptions.push(off);
      return off;
    };
    return {
      store: new Proxy(store, {
        get: (target, name) => {
          if (name === 'subscribe') return subscribing;
          const value = Reflect.get(target, name, target) as unknown;
          return typeof value === 'function' ? value.bind(target) : value;
        },
      }),
      moveClock: (byMs) => {
        nowMs += byMs;
      },
      restart: () => schema.restart(),
      wipe: async () => {
        await schema.wipe(namespace);
        await schema.restart();
      },
      snapshot: async () => {
        const putBack = await schema.copy(namespace);
        return async () => {
          await putBack();
          await schema.restart();
        };
      },
      arrived: async () => {
        await store.sent();
        await schema.heard();
      },
      close: async () => {
        await Promise.all(subscriptions.map((off) => off()));
        await store.close();
        await schema.wipe(namespace);
      },
    };
  };
}
