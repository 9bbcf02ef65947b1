import { bare, messageOf, stateOf } from './clients/failures.js';
import type { Link } from './clients/link.js';
import { ServerUnfitError } from './clients/unfit.js';
import { quoted } from './quoting.js';
import { sql } from './script.js';
import { newestVersion, partsOf, refuseNewer, versionIn } from './version.js';

/** In the second, the server keeps the bytes that it is sent. */
const ENCODINGS = new Set(['UTF8', 'SQL_ASCII']);

/** Older ones lack what is used, and get no security updates any more. */
const OLDEST = 140_000;

interface Server {
  readonly version: number;
  readonly isStandby: boolean;
  readonly isReadOnly: boolean;
  readonly isolation: string;
  readonly user: string;
  readonly fsync: string;
  readonly pid: number;
  readonly encoding: string;
  readonly hasTriggers: boolean;
}

export interface Finding {
  /**
   * - `isolation`: transactions begin stricter than READ COMMITTED, which costs round trips
   * - `prepare`: a pooler stands between, and the user's own statements are prepared by name
   * - `fsync`: a crash of the host may destroy the database
   */
  readonly code: 'isolation' | 'prepare' | 'fsync';
  readonly message: string;
}

export interface CheckOptions {
  readonly where: string;
  readonly schema: string;
  /** Whether the schema may be set up here. */
  readonly migrates: boolean;
  /** Whether the user's own statements are prepared by name. */
  readonly prepares: boolean;
}

export interface Checked {
  readonly findings: readonly Finding[];
  /** Whether each statement has to be begun as READ COMMITTED. */
  readonly isStrict: boolean;
}

/**
 * Looks whether the server and the schema are fit, and sets the schema up where that is wanted.
 *
 * @throws ServerUnfitError that says what to change; what the server said else
 */
export async function check(link: Link, { migrates, prepares, schema, where }: CheckOptions): Promise<Checked> {
  const server = await ask(link);
  if (server.version < OLDEST) {
    throw new ServerUnfitError(
      'version',
      `${where} is PostgreSQL ${Math.floor(server.version / 10_000)}. Expected 14 or later.`,
    );
  }
  if (server.isStandby) {
    throw new ServerUnfitError(
      'standby',
      `${where} is a standby, which takes no writes. Name the primary, or an address that follows it.`,
    );
  }
  if (server.isReadOnly) {
    throw new ServerUnfitError(
      'standby',
      `${where} takes no writes: default_transaction_read_only is on for ${quoted(server.user)} or its database. Switch it off for this role.`,
    );
  }
  refuseSettings(where, server);
  const isPooled = link.peerPid !== undefined && link.peerPid !== server.pid;
  if (isPooled) await demandTransactions(link, where);
  await bringUp(link, { migrates, schema, where }, server.user);
  await checkParts(link, schema, where);
  await checkRights(link, schema, where, server.user);
  return { findings: findings(where, server, isPooled && prepares), isStrict: server.isolation !== 'read committed' };
}

async function ask(link: Link): Promise<Server> {
  const answer = await link.query(`select pg_catalog.json_build_object(
    'version', ${setting('server_version_num')}::pg_catalog.int4, 'isStandby', pg_catalog.pg_is_in_recovery(),
    'isReadOnly', ${setting('transaction_read_only')}::pg_catalog.bool, 'isolation', ${setting('transaction_isolation')},
    'user', current_user, 'fsync', ${setting('fsync')}, 'pid', pg_catalog.pg_backend_pid(),
    'encoding', ${setting('server_encoding')}, 'hasTriggers', ${setting('session_replication_role')} = 'origin')`);
  return JSON.parse(answer ?? '{}') as Server;
}

/** Some poolers give out a connection for one statement only. */
async function demandTransactions(link: Link, where: string): Promise<void> {
  try {
    await link.query('begin');
    await link.query('commit');
  } catch (cause) {
    // By postgres nothing is heard but that the connection has ended.
    if (!/statement pooling/.test(messageOf(cause)) && stateOf(cause) !== undefined) throw cause;
    throw new ServerUnfitError(
      'pooler',
      `The pooler before ${where} ends a connection that begins a transaction: it gives one out for each statement. Set pool_mode to transaction.`,
      { cause: bare(cause) },
    );
  }
}

function setting(name: string): string {
  return `pg_catalog.current_setting('${name}')`;
}

/** What would do harm later, and only now and then. */
function refuseSettings(where: string, { encoding, hasTriggers, user }: Server): void {
  if (!ENCODINGS.has(encoding)) {
    throw new ServerUnfitError(
      'setting',
      `The database at ${where} has the encoding ${encoding}, which has no place for most characters of chats. Create one with encoding 'UTF8'.`,
    );
  }
  if (hasTriggers) return;
  throw new ServerUnfitError(
    'setting',
    `On ${where} session_replication_role of ${quoted(user)} is not 'origin': no trigger runs, and nothing would hold a transaction of a handler against its turn. Reset it for this role.`,
  );
}

async function bringUp(
  link: Link,
  { migrates, schema, where }: Omit<CheckOptions, 'prepares'>,
  user: string,
): Promise<void> {
  const found = await versionIn(link, schema);
  refuseNewer(where, schema, found);
  const wanted = newestVersion(schema);
  if (found === wanted) return;
  const what =
    found === 0
      ? `There is nothing of botmesh in the schema ${quoted(schema)} on ${where}`
      : `The schema ${quoted(schema)} on ${where} has version ${found}, and this version of @botmesh/postgres needs ${wanted}`;
  const fix = 'Run migrate() with the url of a role that may, or what sql() prints, before the replicas start';
  if (!migrates) throw new ServerUnfitError('schema', `${what}, and migrate is false. ${fix}.`);
  try {
    await link.query(sql({ schema }));
  } catch (cause) {
    if (stateOf(cause) !== '42501') throw cause;
    throw new ServerUnfitError('schema', `${what}, and ${quoted(user)} may not make it. ${fix}.`, { cause });
  }
}

/** What is missing, though it was set up, would be told of by the first step that needs it. */
async function checkParts(link: Link, schema: string, where: string): Promise<void> {
  const { functions, tables } = partsOf();
  const missing = await link.query(
    `select pg_catalog.string_agg(name, ', ') from (
       select name from pg_catalog.unnest($2::pg_catalog.text[]) name where not exists (
         select from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
         where n.nspname = $1 and c.relname = name)
       union all
       select name || '()' from pg_catalog.unnest($3::pg_catalog.text[]) name where not exists (
         select from pg_catalog.pg_proc p join pg_catalog.pg_namespace n on n.oid = p.pronamespace
         where n.nspname = $1 and p.proname = name)) missing`,
    [schema, `{${tables.join(',')}}`, `{${functions.join(',')}}`],
  );
  if (missing === null) return;
  throw new ServerUnfitError(
    'schema',
    `In the schema ${quoted(schema)} on ${where} there is no longer: ${missing}. Put it back, or drop the schema and start with a new one, which knows nothing of what was accepted.`,
  );
}

/** A right that is missing would be told of by the first message only. */
async function checkRights(link: Link, schema: string, where: string, user: string): Promise<void> {
  const missing = await link.query(
    `select pg_catalog.string_agg(what, ', ') from (
       select c.relname as what from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
       where n.nspname = $1 and c.relkind = 'r' and c.relname <> 'migrations' and not (pg_catalog.has_table_privilege(c.oid, 'select')
         and pg_catalog.has_table_privilege(c.oid, 'insert') and pg_catalog.has_table_privilege(c.oid, 'update') and pg_catalog.has_table_privilege(c.oid, 'delete'))
       union all
       select 'row security on ' || c.relname from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
       where n.nspname = $1 and c.relkind = 'r' and pg_catalog.row_security_active(c.oid)
       union all
       select p.proname || '()' from pg_catalog.pg_proc p join pg_catalog.pg_namespace n on n.oid = p.pronamespace
       where n.nspname = $1 and not pg_catalog.has_function_privilege(p.oid, 'execute')) missing`,
    [schema],
  );
  if (missing === null) return;
  throw new ServerUnfitError(
    'rights',
    `${quoted(user)} lacks rights in the schema ${quoted(schema)} on ${where}: ${missing}. Run migrate({ role }) or what sql({ role }) prints, as the schema's owner.`,
  );
}

function findings(where: string, { fsync, isolation, user }: Server, preparesByPooler: boolean): Finding[] {
  const found: Finding[] = [];
  if (isolation !== 'read committed') {
    found.push({
      code: 'isolation',
      message: `On ${where} transactions of ${quoted(user)} begin as ${isolation}: each step takes three round trips instead of one. Set default_transaction_isolation of this role to 'read committed'.`,
    });
  }
  if (preparesByPooler) {
    found.push({
      code: 'prepare',
      message: `A pooler stands before ${where}, and the instance of postgres that was passed prepares statements by name: those of handlers in ctx.transaction() fail there, unless the pooler keeps track of them (PgBouncer 1.21 and later, max_prepared_statements). Pass an instance with prepare: false.`,
    });
  }
  if (fsync === 'off') {
    found.push({
      code: 'fsync',
      message: `On ${where} fsync is off: a crash of the host may destroy all that is kept. Switch it on.`,
    });
  }
  return found;
}
