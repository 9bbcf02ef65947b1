import {
  ConfigError,
  checkOptionNames,
  checkStateKey,
  checkStateWrite,
  keyOfChat,
  StaleFenceError,
  type StoredState,
  type TransactionalStateStore,
  type TurnTransaction,
} from '@botmesh/core/spi';
import type { PostgresClient } from './clients/client.js';
import { makeClient } from './clients/make-client.js';
import { quoted } from './quoting.js';
import { checkNamespace, checkSchema } from './schema.js';
import { Transactions } from './Transactions.js';
import { shortOf } from './text.js';

export interface PostgresStateStoreOptions {
  /** As for `PostgresCoordinator`; for `ctx.transaction` it has to be the same database, schema and namespace. */
  url?: string;
  client?: unknown;
  schema?: string;
  namespace?: string;
  migrate?: boolean;
  /**
   * How long the state of a chat is kept after it was last saved. Its fence is forgotten with it, so it has to be longer
   * than any turn. Default: for ever.
   */
  ttlMs?: number;
  /** How long to wait for an answer. Default 2,000. */
  timeoutMs?: number;
}

const NAMES = {
  url: true,
  client: true,
  schema: true,
  namespace: true,
  migrate: true,
  ttlMs: true,
  timeoutMs: true,
} as const;

/** Shorter than this, a state could go while its turn runs. */
const MIN_TTL_MS = 60_000;
/** How often a store that saves looks for what has outlived its time, and how much of it goes at once. */
const SWEEP_MS = 60_000;
const SWEPT = 1_000;

/** The state of chats in PostgreSQL, each write held against the fence of the last. */
export class PostgresStateStore implements TransactionalStateStore {
  readonly #client: PostgresClient;
  readonly #transactions: Transactions;
  readonly #namespace: string;
  readonly #ttlMs: number;
  readonly #sql: ReturnType<typeof statements>;
  #sweptAtMs = performance.now();

  /** @throws ConfigError naming the option that cannot work */
  constructor(options: PostgresStateStoreOptions) {
    checkOptionNames('PostgresStateStore', options, NAMES);
    const { client, timeoutMs = 2_000, url } = options;
    if (!(timeoutMs > 0)) throw new ConfigError('timeoutMs: expected a number of milliseconds above 0.');
    this.#ttlMs = checkTtl(options.ttlMs);
    this.#namespace = checkNamespace(options.namespace);
    this.#sql = statements(quoted(checkSchema(options.schema)));
    const times = { timeoutMs, connectTimeoutMs: 2 * timeoutMs };
    const { migrate, schema } = options;
    this.#client = makeClient({ url, client, schema, migrate, wakeUp: 'poll', ...times });
    this.#transactions = new Transactions({ url, client }, times);
  }

  async load(key: string): Promise<StoredState | null> {
    checkStateKey(key);
    const found = await this.#call(this.#sql.load, [this.#namespace, shortOf(key)]);
    return found === null ? null : parse(found);
  }

  async save(key: string, value: unknown, fence: number): Promise<void> {
    const json = checkStateWrite(key, value, fence);
    const newest = await this.#call(this.#sql.save, this.#row(key, json, fence, null));
    await this.#refuseStale(key, fence, newest);
    if (this.#ttlMs > 0) this.#sweep();
  }

  async delete(key: string): Promise<void> {
    checkStateKey(key);
    await this.#call(this.#sql.delete, [this.#namespace, shortOf(key)]);
  }

  async transaction<T>({ run, saved, turn }: TurnTransaction<T>): Promise<T> {
    await this.#client.open();
    const { fence, seq } = turn;
    const result = await this.#transactions.run(run, async (query) => {
      const found = await saved();
      const json = checkStateWrite(found.key, found.value, fence);
      const held = listOf([shortOf(keyOfChat(turn.key)), String(seq), String(fence)]);
      const written = await query(this.#sql.save, this.#row(found.key, json, fence, held));
      if (written === null) throw new StaleFenceError(fence, fence + 1);
    });
    if (this.#ttlMs > 0) this.#sweep();
    return result;
  }

  /** Closes what it opened. A later call opens it again. */
  async close(): Promise<void> {
    await Promise.all([this.#client.close(), this.#transactions.close()]);
  }

  async #call(text: string, values: readonly (string | null)[]): Promise<string | null> {
    await this.#client.open();
    return this.#client.call(text, values);
  }

  #row(key: string, json: string, fence: number, turn: string | null): readonly (string | null)[] {
    const ttl = this.#ttlMs === 0 ? null : String(this.#ttlMs);
    return [this.#namespace, shortOf(key), String(fence), json, ttl, turn];
  }

  /** No row was written: a greater fence was there. */
  async #refuseStale(key: string, fence: number, written: string | null): Promise<void> {
    if (written !== null) return;
    const newest = await this.#call(this.#sql.fence, [this.#namespace, shortOf(key)]);
    throw new StaleFenceError(fence, Number(newest ?? fence + 1));
  }

  #sweep(): void {
    const now = performance.now();
    if (now - this.#sweptAtMs < SWEEP_MS) return;
    this.#sweptAtMs = now;
    // What is not done now is done another time.
    this.#call(this.#sql.sweep, []).catch(() => {});
  }
}

function statements(schema: string) {
  const alive = '(s.expires_at is null or s.expires_at > pg_catalog.clock_timestamp())';
  // Rounded up, so that not every save changes what is indexed.
  const step = `greatest($5::float8 / 20, 1000) * interval '1 ms'`;
  const expiry = `pg_catalog.date_bin(${step}, pg_catalog.clock_timestamp() + $5::float8 * interval '1 ms', 'epoch') + ${step}`;
  return {
    load: `select fence || ' ' || value from ${schema}.state s where namespace = $1 and key = $2 and ${alive}`,
    fence: `select fence from ${schema}.state where namespace = $1 and key = $2`,
    // One statement is one step: the write happens only under a fence that is not older.
    save: `insert into ${schema}.state as s (namespace, key, fence, value, expires_at, turn)
      values ($1, $2, $3::bigint, $4, case when $5::float8 is not null then ${expiry} end, $6::text[])
      on conflict (namespace, key) do update set fence = excluded.fence, value = excluded.value,
        expires_at = excluded.expires_at, turn = excluded.turn
      where s.fence <= excluded.fence or not ${alive} returning fence`,
    delete: `delete from ${schema}.state where namespace = $1 and key = $2`,
    sweep: `delete from ${schema}.state where ctid = any (array(select ctid from ${schema}.state
      where expires_at < pg_catalog.clock_timestamp() limit ${SWEPT} for update skip locked))`,
  };
}

function parse(row: string): StoredState {
  const at = row.indexOf(' ');
  return { value: JSON.parse(row.slice(at + 1)) as unknown, fence: Number(row.slice(0, at)) };
}

/** An array of texts, as PostgreSQL writes it. */
function listOf(texts: readonly string[]): string {
  return `{${texts.map((text) => `"${text.replaceAll(/["\\]/g, '\\$&')}"`).join(',')}}`;
}

function checkTtl(ttlMs: unknown): number {
  if (ttlMs === undefined) return 0;
  if (Number.isSafeInteger(ttlMs) && (ttlMs as number) >= MIN_TTL_MS) return ttlMs as number;
  throw new ConfigError(`ttlMs: expected a whole number of milliseconds from ${MIN_TTL_MS} up, or nothing.`);
}
