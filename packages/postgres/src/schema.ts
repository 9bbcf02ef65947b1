import { ConfigError } from '@botmesh/core/spi';
import { quoted } from './quoting.js';
import { migrations } from './sql/migrations.js';

/** One step of the schema. Steps that were released are never changed. */
export interface Step {
  readonly version: number;
  readonly sql: string;
}

const DEFAULT_SCHEMA = 'botmesh';
const DEFAULT_NAMESPACE = 'botmesh';
/** In bytes, as PostgreSQL counts them: it would cut a longer name, and two of them could become one. */
const LONGEST_NAME = 63;

/** @throws ConfigError when it is no name for a schema */
export function checkSchema(schema: unknown = DEFAULT_SCHEMA): string {
  const isName = typeof schema === 'string' && schema !== '' && Buffer.byteLength(schema) <= LONGEST_NAME;
  // Bodies of functions are quoted by dollars.
  if (isName && !schema.includes('\u0000') && !schema.includes('$') && !/^pg_/i.test(schema)) return schema;
  throw new ConfigError(
    `schema: expected the name of a schema of 1 to ${LONGEST_NAME} bytes, without $, that does not begin with pg_, such as '${DEFAULT_SCHEMA}'.`,
  );
}

/** @throws ConfigError when it is no namespace */
export function checkNamespace(namespace: unknown = DEFAULT_NAMESPACE): string {
  if (typeof namespace === 'string' && /^[\w.-]{1,64}$/.test(namespace)) return namespace;
  throw new ConfigError('namespace: expected 1 to 64 letters, digits, dots, underscores or dashes.');
}

/** All steps of a schema, in order. */
export function stepsOf(schema: string): readonly Step[] {
  const name = quoted(schema);
  return migrations(schema).map(({ version, sql }) => ({
    version,
    sql: version === 1 ? `${sql}\n${stateTable(name)}` : sql,
  }));
}

/**
 * The state of chats. Nothing that a save changes is indexed, unless it has a time to live.
 *
 * A save that is part of a handler's transaction names its turn. Whether that is held is looked up at the commit, by the
 * server itself: so the lock on the chat, which every step for it waits for, never depends on a client that may have stopped.
 * The message it ends is never parked, whatever becomes of its replica.
 */
function stateTable(schema: string): string {
  return `
create table ${schema}.state (
  namespace text collate "C" not null,
  key text collate "C" not null,
  fence bigint not null,
  value text not null,
  expires_at timestamptz,
  turn text[],
  primary key (namespace, key)
) with (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02);
create index state_expires_at on ${schema}.state (expires_at) where expires_at is not null;

create function ${schema}.check_turn() returns trigger language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  the_key text := new.turn[1];
  the_seq bigint := new.turn[2]::bigint;
  the_fence bigint := new.turn[3]::bigint;
  the_mesh integer;
begin
  -- Who holds a chat has a row for it: where there is none, turns are kept elsewhere.
  if not exists (select from ${schema}.mesh m join ${schema}.chat c on c.mesh = m.id
      where m.namespace = new.namespace and c.key = the_key) then
    raise exception 'no turns of this chat are kept here' using errcode = 'BM002';
  end if;
  select c.mesh into the_mesh from ${schema}.chat c join ${schema}.mesh m on m.id = c.mesh
    where m.namespace = new.namespace and c.key = the_key and c.seq = the_seq and c.fence = the_fence
    for no key update of c;
  if not found then
    raise exception 'the turn is no longer held' using errcode = 'BM001';
  end if;
  update ${schema}.entry set max_attempts = 9007199254740991
    where mesh = the_mesh and key = the_key and seq = the_seq and is_message;
  return null;
end
$$;
create constraint trigger check_turn after insert or update on ${schema}.state deferrable initially deferred
  for each row when (new.turn is not null) execute function ${schema}.check_turn();
`;
}
