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
  if (isName && !schema.includes('\u0000') && !/^pg_/i.test(schema)) return schema;
  throw new ConfigError(
    `schema: expected the name of a schema of 1 to ${LONGEST_NAME} bytes that does not begin with pg_, such as '${DEFAULT_SCHEMA}'.`,
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

/** The state of chats. Nothing that a save changes is indexed, unless it has a time to live. */
function stateTable(schema: string): string {
  return `
create table ${schema}.state (
  namespace text collate "C" not null,
  key text collate "C" not null,
  fence bigint not null,
  value text not null,
  expires_at timestamptz,
  primary key (namespace, key)
) with (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02);
create index state_expires_at on ${schema}.state (expires_at) where expires_at is not null;
`;
}
