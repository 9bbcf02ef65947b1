import { ConfigError, LeaseLostError, StaleFenceError } from '@botmesh/core/spi';
import { stateOf } from './clients/failures.js';
import { findLibrary, recognise } from './clients/libraries.js';
import type { DialSettings } from './clients/link.js';
import type { Place } from './clients/place.js';
import { explain } from './clients/unfit.js';
import { within } from './clients/within.js';

type Query = (text: string, values: readonly (string | null)[]) => Promise<string | null>;

/** Runs the handler's statements and ours in one transaction, on connections of the user's own kind. */
export interface TransactionLibrary {
  /** Calls `act` between begin and commit. Rejects with what it threw, or with the library's error. */
  run<T>(act: (sql: unknown, query: Query) => Promise<T>): Promise<T>;
  /** Ends what was opened here. */
  close(): Promise<void>;
}

/** A replica that stopped in the middle keeps its locks for no longer. */
const IDLE = "set local idle_in_transaction_session_timeout = '60s'";
const BEGIN = 'isolation level read committed read write';

/** For how long a connection that was opened here is kept. */
const KEPT_MS = 30_000;

/** Transactions of handlers: on the Pool of pg or the instance of postgres that was passed in, else on a pool of our own. */
export class Transactions {
  readonly #place: Place;
  readonly #settings: DialSettings;
  #library: Promise<TransactionLibrary> | undefined;

  constructor(place: Place, settings: DialSettings) {
    this.#place = place;
    this.#settings = settings;
  }

  /**
   * `act` is the handler's, `finish` ours: it runs last before the commit. What either throws is thrown, and takes all back.
   *
   * @throws LeaseLostError or ConfigError when the database refuses to commit for the turn's sake
   */
  async run<T>(act: (sql: unknown) => Promise<T>, finish: (query: Query) => Promise<void>): Promise<T> {
    this.#library ??= openLibrary(this.#place, this.#settings);
    this.#library.catch(() => {
      this.#library = undefined;
    });
    const library = await this.#library;
    let thrown: { readonly error: unknown } | undefined;
    try {
      return await library.run(async (sql, query) => {
        try {
          const result = await act(sql);
          await finish(query);
          return result;
        } catch (error) {
          thrown = { error };
          throw error;
        }
      });
    } catch (error) {
      throw meaningOf(thrown === undefined ? error : thrown.error, thrown === undefined);
    }
  }

  async close(): Promise<void> {
    const library = this.#library;
    this.#library = undefined;
    await (await library?.catch(() => undefined))?.close();
  }
}

/** What the check at the commit says, and what a handler's statement says when it is made to check at once. */
function meaningOf(cause: unknown, isOurs: boolean): unknown {
  switch (stateOf(cause)) {
    case 'BM001':
      return new LeaseLostError('superseded', 'the chat has another turn by now, and the transaction was taken back');
    case 'BM002':
      return new ConfigError(
        'ctx.transaction(): no turns of this chat are kept in this database, schema and namespace. Give PostgresCoordinator and PostgresStateStore the same three.',
      );
    default:
      return isOurs && !(cause instanceof StaleFenceError) ? explain('the database', cause) : cause;
  }
}

async function openLibrary({ client, url }: Place, settings: DialSettings): Promise<TransactionLibrary> {
  if (client === undefined) return ofUrl(url!, settings);
  const known = recognise(client);
  if (known.library === 'postgres') return ofPostgres(client as Sql, false);
  if (known.kind === 'pool') return ofPool(client as Pool, settings, false);
  // One client has one transaction at a time, and its user's statements among them.
  return ownPool(known.config, settings);
}

async function ofUrl(url: string, settings: DialSettings): Promise<TransactionLibrary> {
  const { name } = await findLibrary();
  if (name === 'pg') return ownPool({ connectionString: url }, settings);
  const { default: postgres } = (await import('postgres')) as unknown as {
    default: (url: string, options: object) => Sql;
  };
  const options = {
    connect_timeout: settings.connectTimeoutMs / 1000,
    idle_timeout: KEPT_MS / 1000,
    onnotice: () => {},
    // A pooler of transactions may bring each one to another server process, which knows no name of the last.
    prepare: false,
  };
  return ofPostgres(postgres(url, options), true);
}

interface PoolClient {
  query(text: string, values?: readonly unknown[]): Promise<{ rows: Record<string, unknown>[] }>;
  release(error?: boolean): void;
  on(event: 'error', listener: (error: Error) => void): unknown;
  off(event: 'error', listener: (error: Error) => void): unknown;
}

interface Pool {
  readonly options: { readonly max: number };
  connect(): Promise<PoolClient>;
  end(): Promise<void>;
  on(event: 'error', listener: () => void): unknown;
}

async function ownPool(config: object, settings: DialSettings): Promise<TransactionLibrary> {
  const module = (await import('pg')) as unknown as {
    Pool?: new (config: object) => Pool;
    default: { Pool: new (config: object) => Pool };
  };
  const Pool = module.Pool ?? module.default.Pool;
  const times = { connectionTimeoutMillis: settings.connectTimeoutMs, idleTimeoutMillis: KEPT_MS };
  const pool = new Pool({ ...config, ...times, keepAlive: true });
  pool.on('error', () => {});
  return ofPool(pool, settings, true);
}

function ofPool(pool: Pool, { connectTimeoutMs }: DialSettings, isOwn: boolean): TransactionLibrary {
  const line = new Line(pool.options.max);
  const run = async <T>(act: (sql: unknown, query: Query) => Promise<T>): Promise<T> => {
    const client = await connected(pool, connectTimeoutMs);
    let broken: Error | undefined;
    const onError = (error: Error): void => {
      broken ??= error;
    };
    client.on('error', onError);
    try {
      await client.query(`begin ${BEGIN}; ${IDLE}`);
      const result = await act(client, async (text, values) => {
        // Which says why: what is asked of the client from then on does not.
        if (broken !== undefined) throw broken;
        return textOf((await client.query(text, values)).rows[0]);
      });
      await client.query('commit');
      return result;
    } catch (error) {
      await client.query('rollback').catch(onError);
      throw error;
    } finally {
      client.off('error', onError);
      client.release(broken !== undefined);
    }
  };
  return {
    // The time limit is for the server. What waits for other transactions to end has not failed.
    run: (act) => line.run(() => run(act)),
    close: async () => {
      if (isOwn) await pool.end();
    },
  };
}

/** Lets `size` tasks run at once, and the others wait, in the order of the calls. */
class Line {
  #free: number;
  readonly #waiting: (() => void)[] = [];

  constructor(size: number) {
    this.#free = size;
  }

  async run<T>(task: () => Promise<T>): Promise<T> {
    if (this.#free > 0) this.#free -= 1;
    else await new Promise<void>((resolve) => this.#waiting.push(resolve));
    try {
      return await task();
    } finally {
      const next = this.#waiting.shift();
      if (next === undefined) this.#free += 1;
      else next();
    }
  }
}

/** A pool may let its users wait for ever. Who comes too late goes back. */
function connected(pool: Pool, limitMs: number): Promise<PoolClient> {
  let isLate = false;
  const connecting = pool.connect().then((client) => {
    if (isLate) client.release();
    return client;
  });
  return within(limitMs, 'a connection of the pool', connecting).catch((error: unknown) => {
    isLate = true;
    throw error;
  });
}

interface TransactionSql {
  unsafe(text: string, values?: readonly unknown[]): Promise<Record<string, unknown>[]>;
}

interface Sql {
  begin<T>(options: string, act: (sql: TransactionSql) => Promise<T>): Promise<T>;
  end(options: { timeout: number }): Promise<void>;
}

function ofPostgres(sql: Sql, isOwn: boolean): TransactionLibrary {
  return {
    run: (act) =>
      sql.begin(BEGIN, async (tx) => {
        await tx.unsafe(IDLE);
        return act(tx, async (text, values) => textOf((await tx.unsafe(text, values))[0]));
      }),
    close: async () => {
      if (isOwn) await sql.end({ timeout: 5 });
    },
  };
}

function textOf(row: Record<string, unknown> | undefined): string | null {
  const [value] = Object.values(row ?? {});
  return value === undefined || value === null ? null : `${value as string | number | bigint}`;
}
